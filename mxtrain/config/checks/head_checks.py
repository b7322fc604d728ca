"""Refusals of flags that do not go with `--head-chunk`: those that need the answers of all classes at once."""

from __future__ import annotations

from mxtrain.config import Run, batch_plan
from mxtrain.config.components import losses, metrics
from mxtrain.core.errors import UsageError

LOSSES = ("cross_entropy", *losses.of_target(losses.COSINES))
METRIC = "accuracy"  # which evaluations have anyway


def check(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with --head-chunk."""
    if not run.model.head_chunk:
        if run.model.head_classes:
            raise UsageError(
                f"--head-classes {run.model.head_classes}: the head is whole; give --head-chunk too, such as 65536, or "
                "leave it out"
            )
        return
    data, model, optim, layout = run.data, run.model, run.optim, run.layout
    flag = f"--head-chunk {model.head_chunk}"
    several = "needs the answers of all classes at once"
    metric = next((each.name for each in metrics.parse(run.output.metric) if each.name != METRIC), "")
    device = batch_plan.parse_devices(layout.devices)[0][0]
    for refused, other, why in (
        (
            losses.parse(model.loss).name not in LOSSES,
            f"--loss {model.loss}",
            f"is not computed in chunks; give {', '.join(LOSSES[:-1])} or {LOSSES[-1]}",
        ),
        (optim.label_smoothing, f"--label-smoothing {optim.label_smoothing:g}", f"{several}; leave it out"),
        (data.mixup, f"--mixup {data.mixup:g}", "gives a picture two classes; leave it out"),
        (data.cutmix, f"--cutmix {data.cutmix:g}", "gives a picture two classes; leave it out"),
        (model.teacher, f"--teacher {model.teacher}", f"{several}; leave it out"),
        (model.prune, f"--prune {model.prune:g}", "knows layers that are whole; leave one of them out"),
        (metric, f"--metric {metric}", f"{several}; leave it out, and give it to evaluate"),
        (
            layout.stages > 1,
            f"--stages {layout.stages}",
            "has no device for the chunks; leave one of them out",
        ),
        (
            device != "cpu",
            f"--devices {layout.devices}",
            "the chunks are computed on CPUs; give --devices cpu",
        ),
    ):
        if refused:
            raise UsageError(f"{other} with {flag}: {why}")
