"""Refusals of `--loss` with flags that it cannot heed."""

from __future__ import annotations

from mxtrain.config import Run
from mxtrain.config.components import losses
from mxtrain.core.errors import UsageError


def check(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with the loss."""
    smoothing, loss = run.optim.label_smoothing, losses.parse(run.model.loss).name
    # What `auto` is, only the data tells; its task refuses the flag where that is a loss of numbers.
    if smoothing and loss not in (*losses.SMOOTHED, losses.AUTO):
        raise UsageError(
            f"--label-smoothing: --loss {loss} does not know it; leave it out, or give {' or '.join(losses.SMOOTHED)}"
        )
    if loss not in losses.of_target(losses.COSINES):
        return
    for flag, alpha in (("--mixup", run.data.mixup), ("--cutmix", run.data.cutmix)):
        if alpha:
            raise UsageError(
                f"{flag} {alpha:g}: the margin of --loss {loss} is for the one class of a picture, and a mixed one has "
                f"two; leave {flag} out"
            )
    if run.model.teacher:
        raise UsageError(
            f"--teacher {run.model.teacher}: the margin of --loss {loss} is for the one class of a picture, and a "
            "teacher gives shares of all; leave --teacher out, or give --loss cross_entropy"
        )
