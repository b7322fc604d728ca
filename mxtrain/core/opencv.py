"""OpenCV, which all of mxtrain imports from here: `from mxtrain.core.opencv import cv2`.

Owns what is said where it does not load, and its settings.
"""

from __future__ import annotations

from typing import Any

from mxtrain.core.errors import UsageError, as_stop
from mxtrain.core.system import libraries, wheels


def why_not(error: ImportError) -> str:
    """Return one sentence for an OpenCV that does not import: what is missing, and the command that helps."""
    library = libraries.name_in(error)
    if library:
        apt = libraries.cure(library) or "install that library"
        return (
            f"OpenCV does not load, {library} is missing on this machine: {wheels.install_command()} "
            f"puts the wheel that needs none in its place; or {apt}"
        )
    if getattr(error, "name", None) == "cv2":
        return f"OpenCV is not installed: pip install '{wheels.OPENCV}'"
    return f"OpenCV does not load ({' '.join(str(error).split())}): {wheels.install_command()}"


try:
    import cv2
except ImportError as error:
    raise as_stop(error) or UsageError(why_not(error)) from error

cv2.setNumThreads(
    0
)  # pictures are decoded in parallel already: its own threads would only fight over the cores
# We say ourselves what is wrong with a picture. Until 4.13 the function is here, from 4.14 on there.
_logging: Any = cv2 if hasattr(cv2, "setLogLevel") else vars(cv2.utils)["logging"]
_logging.setLogLevel(0)

__all__ = ["cv2", "why_not"]
