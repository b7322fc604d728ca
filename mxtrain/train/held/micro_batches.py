"""The micro-batches of a step on their way through a net that is computed segment by segment.

Owns what of each is kept between segments: its input, what the last segment passed on, and the seeds of its random
numbers, which are those of `--remat` (`models/remat.py`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Callable

from mxtrain.data.loading.loader import Batch
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.step import MicroBatches, micro_batch_seed

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray


@dataclasses.dataclass
class MicroBatch:
    """One of this worker's micro-batches of a step."""

    position: int
    num_samples: int
    seed: int
    arrays: dict[str, NDArray]  # what the task's forward function takes
    data: Any = None  # the net's input
    passed: list[Any] = dataclasses.field(default_factory=list)  # the input of each segment computed so far
    seeds: dict[int, int] = dataclasses.field(default_factory=dict)  # of segments that draw random numbers
    gradient: Any = None  # of what the segments computed backwards so far were given


class _CalledNet(BaseException):
    """Raised in the place of the net's answer, where its input is all that is wanted; no error, for nobody to catch."""


def opened(
    context: TrainContext, batches: MicroBatches, release: Callable[[Batch], None], step: int
) -> list[MicroBatch]:
    """Return this worker's micro-batches, copied out of the loader's memory, which is released."""
    found = []
    for batch in batches:
        position = batch.request.position
        prepared = context.prepare(batch.arrays, step, position)
        arrays = {name: mx.nd.array(array, dtype=array.dtype) for name, array in prepared.items()}
        seed = micro_batch_seed(context.run.optim.seed, step, position)
        found.append(MicroBatch(position, len(batch), seed, arrays))
        release(batch)
        context.group.report_progress()
    return found


def net_input(context: TrainContext, micro_batch: MicroBatch) -> NDArray:
    """Return the net's input: the random numbers are seeded, and the task's forward function called up to the net."""
    mx.random.seed(micro_batch.seed, ctx=context.devices[0])

    inputs: list[NDArray] = []

    def net(data: NDArray) -> NDArray:
        inputs.append(data)
        raise _CalledNet

    try:
        with mx.autograd.record():
            context.forward(net, micro_batch.arrays)
    except _CalledNet:
        pass
    return inputs[0]
