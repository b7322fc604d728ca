"""Random first weights: MXNet's own values, to the bit, drawn by our part in C in a third of the time.

Owns standing in for MXNet's operators while a net is initialised. Which numbers a net wants, and in which order, is
MXNet's initialisers' and `models/analysis/shapes.py`'s. The operators' own streams stay where a seed has put them.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any, Iterator

import numpy as np

from mxtrain import native
from mxtrain.models.parameters import initializers
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Parameter

SEED_FACTOR = 127  # from a seed to that of MXNet's first stream
LARGEST = float(np.finfo(np.float32).max)
# Initialisers that call one of two operators, for a whole array, or none.
KNOWN = ("Normal", "Uniform", "Xavier", "MSRAPrelu", "Zero", "One", "Constant", "LSTMBias", "Bilinear")


@contextlib.contextmanager
def in_less_time(net: Block, text: str, seed: int) -> Iterator[None]:
    """A block in which the net is initialised, by `initializers.initialize` with this text and seed, and compiled.

    Where an initialiser is not one of MXNet's that are known here, or there is no part in C, MXNet draws all.
    """
    is_known = initializers.is_name(text) and not text.startswith("orthogonal")
    if not (native.draw_normal and is_known and all(map(_has_known_weights, net.collect_params().values()))):
        yield
        return
    operators = mx.initializer.random
    mx.initializer.random = _stand_in(native.random_streams(seed * SEED_FACTOR % 2**32))  # type: ignore[misc]
    try:
        yield
    finally:
        mx.initializer.random = operators


def _has_known_weights(parameter: Parameter) -> bool:
    is_plain = parameter.dtype in ("float32", np.float32) and parameter._stype == "default"
    own = mx.initializer.create(parameter.init) if isinstance(parameter.init, str) else parameter.init
    is_ours = not initializers.is_brought(parameter)
    return is_ours and is_plain and (own is None or type(own) in [getattr(mx.init, name) for name in KNOWN])


def _stand_in(streams: bytearray) -> types.SimpleNamespace:
    """Return the two functions of `mx.random` that initialisers call, on these streams."""

    def uniform(low: float, high: float, shape: Any, out: Any) -> None:
        numbers = np.empty(shape, np.float32)
        native.draw_uniform(streams, *_as_operators_read(low, high), numbers)  # type: ignore[misc]
        out[:] = numbers

    def normal(mean: float, deviation: float, shape: Any, out: Any) -> None:
        numbers = np.empty(shape, np.float32)
        native.draw_normal(streams, *_as_operators_read(mean, deviation), numbers)  # type: ignore[misc]
        out[:] = numbers

    return types.SimpleNamespace(uniform=uniform, normal=normal)


def _as_operators_read(lower: float, upper: float) -> list[float]:
    """Return two numbers as MXNet reads them: from decimals, now and then a neighbour of the nearest float32."""
    return mx.nd.clip(mx.nd.array([-LARGEST, LARGEST]), a_min=lower, a_max=upper).asnumpy().tolist()
