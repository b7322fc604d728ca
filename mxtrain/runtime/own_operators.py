"""Operators of mxtrain's own (`native/operators/`), as MXNet's graphs know them by their names.

Owns that MXNet knows them. Which graphs have them is `models/rewrites/`'s; where MXNet cannot load them none has.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from types import ModuleType
from typing import Any

from mxtrain import native

logger = logging.getLogger("mxtrain.runtime")

ATTENTION = "mxtrain_attention"  # of projections and of what is added to scores; heads
DROPPING_ATTENTION = "mxtrain_dropping_attention"  # that and dropout among shares, by a seed; heads, rate
# A BatchNorm with its activation, a depthwise convolution with those behind it, or on both sides.
NORM, DEPTHWISE_NORM = "mxtrain_norm", "mxtrain_depthwise_norm"
NORM_DEPTHWISE_NORM = "mxtrain_norm_depthwise_norm"
# Convolutions with channels last of nets that answer: their weights, by whether there is a bias and whether a norm, and
# the layers, by Winograd's algorithm where they have a tile.
CONVOLUTION_WEIGHTS = {
    (False, False): "mxtrain_convolution_weights",
    (True, False): "mxtrain_biased_convolution_weights",
    (False, True): "mxtrain_normed_convolution_weights",
    (True, True): "mxtrain_biased_normed_convolution_weights",
}
CONVOLUTION, CONVOLUTION_SUM = "mxtrain_convolution", "mxtrain_convolution_sum"
FIRST_CONVOLUTION = "mxtrain_first_convolution"  # of pictures in plain order
CHANNEL_MEANS = "mxtrain_channel_means"  # of data with channels last
# Blocks of mobile nets (models/rewrites/own/mobile_blocks.py), by whether there is an expansion and whether a gate.
BLOCK = {
    (False, False): "mxtrain_separable",
    (False, True): "mxtrain_gated_separable",
    (True, False): "mxtrain_inverted",
    (True, True): "mxtrain_gated_inverted",
}
FIRST_BLOCK = (
    "mxtrain_first_separable"  # a first convolution and the block behind it, one without an expansion
)
# LSTM layers of nets that answer: weights in the order in which they are read, and layers; inputs, hidden, layers.
LSTM_WEIGHTS, LSTM = "mxtrain_lstm_weights", "mxtrain_lstm"
# Dense layers of nets that answer: packed weights, of weights and a bias, and layers; outputs.
PACKED_WEIGHTS, PACKED_DENSE = "mxtrain_packed_weights", "mxtrain_packed_dense"
# All that make weights of parameters.
WEIGHTS = (*CONVOLUTION_WEIGHTS.values(), LSTM_WEIGHTS, PACKED_WEIGHTS)
LAYER_NORM = "mxtrain_layer_norm"  # of data, gamma and beta, over the last axis; eps
CROSS_ENTROPY = "mxtrain_cross_entropy"  # of scores and labels, over the last axis; smoothing
DENSE = "mxtrain_dense"  # of data, weights and a bias; outputs
REDUCTION = "mxtrain_reduction"  # of data; axis, keepdims, kind (sum, mean or max)
LIKELIEST = "mxtrain_likeliest"  # of scores, over the last axis


def load(mxnet: ModuleType, num_threads: int) -> None:
    """Have MXNet know the operators, which compute with so many threads.

    Not by MXNet's own function for it, which makes all functions of mx.nd and mx.sym anew.
    """
    if native.OPERATORS is None:
        return
    try:
        mxnet.base.check_call(mxnet.base._LIB.MXLoadLib(native.OPERATORS.encode(), mxnet.base.mx_uint(0)))
        library().mxtrain_set_threads(num_threads)
    except (mxnet.base.MXNetError, OSError) as error:
        *_, reason = str(error).strip().splitlines() or ["for no reason that MXNet gives"]
        logger.warning("nets are computed without mxtrain's own operators, which do not load: %s", reason)
        native.OPERATORS = None


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Return the library itself, for its functions that are no operators."""
    assert native.OPERATORS is not None
    return ctypes.CDLL(native.OPERATORS)


def compute(name: str, *arrays: Any, **attributes: object) -> Any:
    """Return what an operator makes of MXNet's arrays, a list of several; outside of graphs."""
    from mxtrain.runtime import mx

    values = [str(value) for value in attributes.values()]
    return mx.nd._internal._imperative_invoke(
        _handle(name), arrays, list(attributes), values, None, False, False
    )


@functools.lru_cache(maxsize=None)
def _handle(name: str) -> int | None:
    from mxtrain.runtime import mx

    handle = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.NNGetOpHandle(name.encode(), ctypes.byref(handle)))
    return handle.value
