"""Refusals of flags that do not go with `--stages`: other numbers of devices, and what needs the net on one."""

from __future__ import annotations

from mxtrain.config import Run, batch_plan
from mxtrain.config.components import choices, stores
from mxtrain.core.errors import UsageError


def check(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with --stages."""
    layout, model = run.layout, run.model
    if layout.stages == 1:
        return
    flag = f"--stages {layout.stages}"
    num_devices = len(batch_plan.parse_devices(layout.devices))
    if num_devices != layout.stages:
        several = ",".join(map(str, range(layout.stages)))
        raise UsageError(
            f"{flag} with --devices {layout.devices}: each stage needs a device of its own; give --devices "
            f"cpu:{several} or gpu:{several}"
        )
    for refused, other, why in (
        (
            layout.hold != choices.HOLD_ALL,
            f"--hold {layout.hold}",
            "holds one part of the net at a time on one device; leave one of them out",
        ),
        (model.remat, "--remat", "computes parts again on one device; leave one of them out"),
        (
            model.head_chunk,
            f"--head-chunk {model.head_chunk}",
            "computes the head beside the net; leave one of them out",
        ),
        (run.output.profile, f"--profile {run.output.profile}", "knows nets of one graph; leave it out"),
        (
            stores.is_async(layout.kvstore),
            f"--kvstore {layout.kvstore}",
            "is not built for parts; give dist_sync, allreduce or a store of one worker",
        ),
    ):
        if refused:
            raise UsageError(f"{flag} with {other}: {why}")
