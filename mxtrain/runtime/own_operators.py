"""Operators of mxtrain's part in C (`native/mxnet_library.c`), as MXNet's graphs know them by their names.

Owns that MXNet knows them. Which graphs have them is `models/rewrites/`'s; without the part in C none has.
"""

from __future__ import annotations

import ctypes
from types import ModuleType

from mxtrain import native

ATTENTION = "mxtrain_attention"  # of projections and of what is added to scores; heads


def load(mxnet: ModuleType, num_threads: int) -> None:
    """Have MXNet know the operators, which compute with so many threads.

    Not by MXNet's own function for it, which makes all functions of mx.nd and mx.sym anew.
    """
    if native.LIBRARY is None:
        return
    mxnet.base.check_call(mxnet.base._LIB.MXLoadLib(native.LIBRARY.encode(), mxnet.base.mx_uint(0)))
    ctypes.CDLL(native.LIBRARY).mxtrain_set_threads(num_threads)
