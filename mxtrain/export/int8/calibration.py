"""The ranges that int8 numbers cover in a net, found on real samples.

Owns looking at the arrays between a net's operators. Of each there are two ranges: from the least number to the most,
and one that entropy finds, which clips a few numbers so that the others are told apart more finely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Container, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.core.opencv import cv2
from mxtrain.data.fields import Array
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.real_samples import Batch
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Symbol

Ranges = Dict[str, Tuple[float, float]]  # by the names of arrays
NUM_BINS = 2048  # of a histogram of magnitudes
LEVELS, LEVELS_FROM_0 = 255, 511  # the latter make uint8, as the half of a histogram below zero is empty then


class Calibration(NamedTuple):
    """The two ranges of each array."""

    extremes: Ranges
    entropy: Ranges


def calibrate(
    symbol: Symbol, graph: InferenceGraph, names: Sequence[str], batches: Sequence[Batch]
) -> Calibration:
    """Return ranges for the arrays called `names` in `symbol`, a form of the graph, on some batches.

    An array that is never negative has a range from 0. DataError for one that is not finite.
    """
    extremes = dict.fromkeys(names, (0.0, 0.0))
    for arrays in computed(symbol, graph, names, batches):
        for name, array in arrays.items():
            least, most = float(array.min()), float(array.max())
            if not np.isfinite(least + most):
                raise DataError(f"{graph.name}: {name} is not finite; the net has diverged")
            extremes[name] = min(extremes[name][0], least), max(extremes[name][1], most)
    ranges = {name: _even(*of_one) for name, of_one in extremes.items()}
    counts = {name: np.zeros(NUM_BINS) for name in names}
    for arrays in computed(symbol, graph, names, batches):
        for name, array in arrays.items():
            counts[name] += _histogram(array, ranges[name][1])
    return Calibration(ranges, {name: _by_entropy(counts[name], *ranges[name]) for name in names})


def _even(least: float, most: float) -> tuple[float, float]:
    """Return the range of these extremes: as far below zero as above, or from 0 where nothing is below."""
    largest = max(-least, most) or 1.0  # what is always zero has any range
    return (-largest if least < 0 else 0.0), largest


def _histogram(array: Array, largest: float) -> Array:
    """Return how many of the array's magnitudes lie in each part of the range up to `largest`."""
    magnitudes = np.abs(array).reshape(-1, 1)
    beyond = float(np.nextafter(np.float32(largest), np.float32(np.inf)))  # the upper end is not counted
    return cv2.calcHist([magnitudes], [0], None, [NUM_BINS], [0, beyond]).ravel()


def _by_entropy(counts: Array, least: float, most: float) -> tuple[float, float]:
    """Return the range that loses the least information, by MXNet's search through a histogram around zero."""
    upper = counts if least == 0 else counts / 2
    lower = np.zeros(NUM_BINS) if least == 0 else upper
    around_zero = np.concatenate([lower[:0:-1], upper[:1] + lower[:1], upper[1:]])
    edges = np.linspace(-most, most, len(around_zero) + 1)
    limit, _ = mx.nd.contrib.calibrate_entropy(
        mx.nd.array(around_zero),
        mx.nd.array(edges),
        num_quantized_bins=LEVELS_FROM_0 if least == 0 else LEVELS,
    )
    return _even(-limit.asscalar() if least < 0 else 0.0, limit.asscalar())


def array_name(node: Mapping[str, Any], output: int, arrays: Container[str]) -> str:
    """Return the name, among `arrays`, of a node's output: of a variable, of an only output, or of one of several."""
    name = node["name"]
    return next(each for each in (name, f"{name}_output", f"{name}_output{output}") if each in arrays)


def computed(
    symbol: Symbol, graph: InferenceGraph, names: Sequence[str], batches: Sequence[Batch]
) -> Iterator[dict[str, Array]]:
    """Yield, for each batch, the arrays called `names`: inputs of the net, or outputs of its operators."""
    internals = symbol.get_internals()
    inner = [name for name in names if name not in graph.inputs]
    outputs = mx.sym.Group([internals[name] for name in inner])
    compute = mx.nd.CachedOp(outputs)
    weights = {**graph.arguments, **graph.auxiliaries}
    for batch in batches:
        arrays = {name: mx.nd.array(each) for name, each in batch.items()}
        computed_arrays = compute(
            *(arrays[name] if name in arrays else weights[name] for name in outputs.list_inputs())
        )
        computed_arrays = computed_arrays if isinstance(computed_arrays, list) else [computed_arrays]
        yield {
            **{name: batch[name] for name in names if name in batch},
            **{name: each.asnumpy() for name, each in zip(inner, computed_arrays)},
        }
