"""The first forward and backward pass on each device, and the way back from a rewritten graph that has no kernels.

Which kernels there are depends on the CPU and on shapes, and oneDNN says so only when an operator is computed. Nothing
has been learnt by then, so the net is compiled again, by its graph as it is. Processes decide for themselves, alike
where they have the same CPU; one that resumes decides anew, so it goes on as it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, TypeVar

from mxtrain.core.errors import UsageError
from mxtrain.models import mxnet_errors, remat
from mxtrain.models.nets import zoo
from mxtrain.models.parameters.running_statistics import StepStatistics
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device

Row = TypeVar("Row")


def computed(
    context: TrainContext, device: Device, running: StepStatistics, compute: Callable[[], Row]
) -> Row:
    """Return what `compute` does: a micro-batch's passes on `device`, whose statistics have been set for them.

    The first time on each device it is waited for, and computed once more if the net's rewritten graph has failed.
    """
    if device not in context.untried:
        return compute()
    context.untried.discard(device)
    try:
        row = compute()
        mx.nd.waitall()
        return row
    except mx.base.MXNetError as error:
        if isinstance(context.net, remat.SegmentedNet):
            reason = mxnet_errors.reason_of(error)
            line = f"{context.net.flag}: a segment of the net cannot be computed ({reason}); leave it out"
            raise UsageError(line) from error

        def compute_again() -> Row:
            running.before_batch(device)
            return compute()

        return zoo.computed_plainly(context.net, error, compute_again)
