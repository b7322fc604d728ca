"""The C extension: decoding a box of a JPEG, and writing pixels as planes, with the results of the code it replaces.

Owns importing it. It is built where mxtrain is installed with a C compiler, and needs AVX2. Without it both functions
are None, and their callers do the same in more time.
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

# crop(payload, top, left, height, width) -> RGB in a bytearray, or None for a kind of JPEG that it does not decode
crop: Function | None = getattr(_built, "crop", None)
# planes(image, out, scale, offset)
planes: Function | None = getattr(_built, "planes", None)
