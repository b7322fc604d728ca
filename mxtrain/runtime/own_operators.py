"""Operators of mxtrain's own (`native/operators/`), as MXNet's graphs know them by their names.

Owns that MXNet knows them. Which graphs have them is `models/rewrites/`'s; where MXNet cannot load them none has.
"""

from __future__ import annotations

import ctypes
import logging
from types import ModuleType

from mxtrain import native

logger = logging.getLogger("mxtrain.runtime")

ATTENTION = "mxtrain_attention"  # of projections and of what is added to scores; heads
LAYER_NORM = "mxtrain_layer_norm"  # of data, gamma and beta, over the last axis; eps


def load(mxnet: ModuleType, num_threads: int) -> None:
    """Have MXNet know the operators, which compute with so many threads.

    Not by MXNet's own function for it, which makes all functions of mx.nd and mx.sym anew.
    """
    if native.OPERATORS is None:
        return
    try:
        mxnet.base.check_call(mxnet.base._LIB.MXLoadLib(native.OPERATORS.encode(), mxnet.base.mx_uint(0)))
        ctypes.CDLL(native.OPERATORS).mxtrain_set_threads(num_threads)
    except (mxnet.base.MXNetError, OSError) as error:
        *_, reason = str(error).strip().splitlines() or ["for no reason that MXNet gives"]
        logger.warning("nets are computed without mxtrain's own operators, which do not load: %s", reason)
        native.OPERATORS = None
