"""The part in C: a box of a JPEG decoded, and pixels turned into planes, with the results of the code that it replaces.

Owns whether it is there. It is built where mxtrain is installed with a C compiler at hand, and needs AVX2; without it
both functions are None and their callers do the same in more time.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

_built: Any
try:
    _built = importlib.import_module("mxtrain.data.native._built")
except ImportError:
    _built = None

Function = Callable[..., Any]

# crop(payload, top, left, height, width) -> RGB in a bytearray; None: not its kind
crop: Function | None = getattr(_built, "crop", None)
# planes(image, out, scale, offset)
planes: Function | None = getattr(_built, "planes", None)
