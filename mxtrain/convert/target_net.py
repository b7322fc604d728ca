"""A net of `--model` that takes weights from elsewhere: built without drawing any, filled, asked.

Needs mxnet. Owns what a net is for a converter: the shapes of its parameters, and its outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

import numpy as np
import numpy.typing as npt

from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.params_file import Arrays
from mxtrain.models.analysis import shapes
from mxtrain.models.parameters import initializers, weights
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block


def built(run: Run, num_classes: int) -> Block:
    """Return the net of `run` for so many classes, with zeros for weights."""
    task = Classification.numbered(run, num_classes)
    net = task.build_net()
    initializers.initialize(net, initializers.ZEROS, [mx.cpu()], 0)
    sample = (1, *task.contract().inputs[0])
    try:
        if shapes.fill_parameters(net, sample) is None:
            net(mx.nd.zeros(sample)).wait_to_read()
    except mx.base.MXNetError:
        size = run.data.image_size
        raise UsageError(
            f"--image-size {size}: {run.model.model} cannot compute such pictures; give another"
        ) from None
    return net


def shapes_of(net: Block) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a net's parameters by their places."""
    return {name: tuple(parameter.shape) for name, parameter in weights.named_parameters(net).items()}


def fill(net: Block, values: Mapping[str, Any]) -> None:
    """Give parameters of the net these values."""
    named = weights.named_parameters(net)
    for name, array in values.items():
        weights.put(named[name], mx.nd.array(array))


def outputs(net: Block, pictures: npt.NDArray[np.float32], source: Any) -> npt.NDArray[np.float32]:
    """Return what the net gives for normalised pictures; DataError where that is not finite."""
    found: npt.NDArray[np.float32] = net(mx.nd.array(pictures)).asnumpy()
    if not np.isfinite(found).all():
        raise DataError(
            f"{source}: the net's outputs for pictures of noise are not finite; give other weights"
        )
    return found


def values_of(net: Block) -> Arrays:
    """Return the values of a net's parameters."""
    return weights.copy_of(net)
