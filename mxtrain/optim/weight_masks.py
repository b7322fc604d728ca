"""Single weights that stay zero: `--prune SHARE --prune-by weight`.

Owns which they are, and keeping them so after each update. They are chosen once, before the first step: those of the
smallest size in all convolutions and dense layers together, and of other kernels. Biases, norms and row-sparse tables
stay whole.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from mxtrain.config import Model
from mxtrain.core.errors import UsageError
from mxtrain.core.params_file import Arrays
from mxtrain.models.nets import sparse_rows
from mxtrain.models.parameters import weights
from mxtrain.optim.companion import Companion
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block


class WeightMasks(Companion):
    """A mask of ones and zeros for each parameter that has been pruned, on each device."""

    def __init__(self, net: Block):
        self._parameters = {
            name: parameter
            for name, parameter in weights.named_parameters(net).items()
            if len(parameter.shape) > 1 and not sparse_rows.is_table(parameter)
        }
        self._masks: dict[str, list[Any]] = {}

    def choose(self, share: float) -> None:
        """Make the smallest weights zero, by size over all parameters, so that at least this `share` of them is."""
        sizes = {name: np.abs(each.list_data()[0].asnumpy()) for name, each in self._parameters.items()}
        total = sum(size.size for size in sizes.values())
        if not total:
            raise UsageError(f"--prune {share:g} --prune-by weight: the net has no weights that could be 0")
        num_zeros = math.ceil(share * total)
        largest_of_zeros = np.partition(
            np.concatenate([each.ravel() for each in sizes.values()]), num_zeros - 1
        )
        kept = {name: size > largest_of_zeros[num_zeros - 1] for name, size in sizes.items()}
        for name, of_parameter in kept.items():
            if not of_parameter.any():
                raise UsageError(
                    f"--prune {share:g} --prune-by weight: leaves nothing of {name}, whose weights are among the "
                    "smallest; give less"
                )
        self._set(kept)

    def after_update(self) -> None:
        """Make the weights zero again, on every device."""
        for name, masks in self._masks.items():
            for data, mask in zip(self._parameters[name].list_data(), masks):
                mx.nd.elemwise_mul(data, mask, out=data)
                data += 0.0  # no negative zeros: workers that are sent weights at the start get them without that sign

    def arrays(self) -> Arrays:
        """Return the masks as a checkpoint keeps them: eight weights in a byte."""
        return {name: np.packbits(masks[0].asnumpy() != 0) for name, masks in self._masks.items()}

    def restore(self, path: Path, saved: Mapping[str, Any]) -> None:
        """Restore the masks in `path`."""
        packed = mx.nd.load(str(path))
        kept = {}
        for name, parameter in self._parameters.items():
            bits = np.unpackbits(packed[name].asnumpy())[: math.prod(parameter.shape)]
            kept[name] = bits.reshape(parameter.shape)
        self._set(kept)

    def _set(self, kept: Arrays) -> None:
        self._masks = {
            name: [mx.nd.array(kept[name], ctx=data.context, dtype=data.dtype) for data in each.list_data()]
            for name, each in self._parameters.items()
        }
        self.after_update()


def of_run(net: Block, model: Model, is_fresh: bool) -> WeightMasks | None:
    """Return the masks of a run, None where it has none; of one that is not fresh a checkpoint will restore them."""
    if not model.prune or model.prune_by != "weight":
        return None
    masks = WeightMasks(net)
    if is_fresh:
        masks.choose(model.prune)
    return masks
