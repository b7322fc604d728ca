"""The record `layers` of a sampled step: lengths of gradients, weights and updates, parameter by parameter.

Measured by those workers that write records, of what they have anyway: nothing is sent, and nothing changes for it.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Iterator, Mapping

import numpy as np

from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext

if TYPE_CHECKING:
    from mxtrain.runtime.types import Parameter

NUM_SAMPLES = 1 << 14  # numbers of a parameter by which the length of its update is estimated


@contextlib.contextmanager
def measured(context: TrainContext, factor: float) -> Iterator[dict[str, Any]]:
    """A block that updates the weights, and is timed as that; yields what the record holds once the block has ended.

    Nothing on a step that is not sampled. `factor` times the gradients is the mean gradient.
    """
    metrics: dict[str, Any] = {}
    clock, is_remote = context.clock, context.trainer.is_remote
    is_writing = context.group.is_writer or context.group.rank == 0
    if not (clock.is_sampling and is_writing and context.trainer.show_sums()):
        yield metrics
        clock.lap("synchronize" if is_remote else "update")
        return
    clock.lap("update")
    named = weights.named_parameters(context.net).items()
    trained = {name: each for name, each in named if each.grad_req != "null"}
    gradients = {name: each.list_grad()[0] for name, each in trained.items()}
    lengths = {name: factor * each for name, each in _lengths(gradients).items()}
    # Rows of an embedding are words: those that the batch does not have get no gradient, and are not dead.
    tables = {id(layer.weight) for layer in weights.layers(context.net, mx.gluon.nn.Embedding)}
    of_zero_rows = zero_rows(
        {name: gradients[name] for name, each in trained.items() if id(each) not in tables}
    )
    before = _spread(trained)
    clock.lap("other")
    yield metrics
    clock.lap("synchronize" if is_remote else "update")
    metrics["gradients"] = lengths
    metrics["weights"] = _lengths({name: each.list_data()[0] for name, each in trained.items()})
    if not is_remote:  # or others have moved the weights too
        metrics["updates"] = _distances(trained, before)
    metrics["zero_rows"] = of_zero_rows
    clock.lap("other")


def zero_rows(gradients: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of rows that are exactly zero, of each gradient by name that has rows and stores all of them."""
    products = {}
    for name, gradient in gradients.items():
        if len(gradient.shape) > 1 and gradient.stype == "default":
            matrix = gradient.reshape((gradient.shape[0], -1))
            # Only rows of zeros are orthogonal to a vector without any pattern. MXNet's sums over rows take twenty
            # times as long as this product.
            vector = 1.0 + np.modf(np.sqrt(5.0) * np.arange(matrix.shape[1]))[0]
            products[name] = mx.nd.dot(matrix, mx.nd.array(vector, matrix.context, matrix.dtype))
    return {name: float((product.asnumpy() == 0).mean()) for name, product in products.items()}


def _lengths(arrays: Mapping[str, Any]) -> dict[str, float]:
    return dict(zip(arrays, precision.lengths(list(arrays.values()))))


def _spread(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of some of each parameter's numbers, evenly spread, of small ones of all."""
    return {
        name: mx.nd.slice(each.list_data()[0].reshape((-1,)), begin=(0,), end=(None,), step=(_stride(each),))
        for name, each in parameters.items()
    }


def _stride(parameter: Parameter) -> int:
    """Return a distance between numbers that meets every place of a kernel and every channel alike."""
    size: int = math.prod(parameter.shape)
    stride = math.ceil(size / NUM_SAMPLES)
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride


def _distances(parameters: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float]:
    """Return how far each parameter has moved, by the numbers of it that `before` holds."""
    moved = {name: after - before[name] for name, after in _spread(parameters).items()}
    shares = {name: each.size / math.prod(parameters[name].shape) for name, each in moved.items()}
    return {name: length / math.sqrt(shares[name]) for name, length in _lengths(moved).items()}
