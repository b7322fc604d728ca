"""Tests of a net and its loss, that they can learn at all: `--only gradients,overfit`.

Owns the flags under which both are tried, and what is said of them. Never loads mxnet: each has a process of its own.
"""

from __future__ import annotations

from typing import Any, Iterator

from mxtrain.config import batch_plan
from mxtrain.doctor.run import trials
from mxtrain.doctor.run.trials import Bench
from mxtrain.optim import schedules

GRADIENT_SAMPLES = 4
STEPS, SHARES = 200, (1.0, 0.1, 0.01)  # of --lr, until one of them learns the batch
MOST_NAMES = 5
# What keeps a loss from zero, or a gradient from being that of the loss.
PLAIN = {
    **{"amp": "off", "remat": False, "hold": "all", "stages": 1},
    **{"ema": 0.0, "mixup": 0.0, "cutmix": 0.0, "label_smoothing": 0.0},
    **{"weight_decay": 0.0, "teacher": "", "clip_norm": 0.0, "clip_value": 0.0},
    **{"kvstore": "device", "num_workers": 1, "min_workers": 0, "compress": "none", "accumulate": 0},
}


def gradients(bench: Bench, seconds: float) -> dict[str, Any]:
    """Return which gradients are wrong, and who is at fault."""
    plan = batch_plan.of_run(bench.run)
    size = min(plan.batch_size, GRADIENT_SAMPLES)
    plain = {**PLAIN, "label_smoothing": bench.run.optim.label_smoothing, "teacher": bench.run.model.teacher}
    small = bench.with_flags(**plain, batch_size=size, micro_batch=size, devices=first_device(bench))
    return trials.measure(small, "gradients", seconds=seconds)


def overfit(bench: Bench, seconds: float, is_own_data: bool) -> dict[str, Any]:
    """Return how the loss of one micro-batch falls, at --lr and, where that does not do, at smaller rates."""
    plan = batch_plan.of_run(bench.run)
    flags = {
        **PLAIN,
        "batch_size": plan.micro_batch,
        "micro_batch": plan.micro_batch,
        "devices": first_device(bench),
    }
    if not is_own_data:
        flags["overfit"] = 1
    tried: list[dict[str, Any]] = []
    for share in SHARES:
        rate = share * schedules.peak_rate(bench.run.optim)
        tried.append(
            trials.measure(bench.with_flags(**flags), "overfit", rate=rate, num_steps=STEPS, seconds=seconds)
        )
        if tried[-1]["has_learnt"]:
            break
    lr = share * bench.run.optim.lr
    return {
        "tried": tried,
        "lr": lr,
        "has_learnt": tried[-1]["has_learnt"],
        "no_gradient": tried[0]["no_gradient"],
    }


def first_device(bench: Bench) -> str:
    device_type, index = batch_plan.parse_devices(bench.run.layout.devices)[0]
    return f"{device_type}:{index}"


def gradient_rows(findings: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table."""
    along = f"along {findings['directions']} direction{'s' * (findings['directions'] > 1)} each"
    wrong = [f"{name} is off by {100 * error:.0f}%" for name, error in findings["wrong"].items()]
    lines = [f"{len(wrong)} of {findings['examined']} parameters have a wrong gradient, {along}"]
    if wrong:
        lines += [some(wrong), f"at fault: {'; '.join(findings['culprits'])}"]
    if findings["unclear"]:
        lines.append(f"{findings['unclear']} could not be told: the loss is not smooth there")
    if findings["no_gradient"]:
        lines.append(f"no gradient reaches {some(findings['no_gradient'])}")
    yield "gradients", lines


def gradient_advice(findings: dict[str, Any]) -> list[str]:
    """Return what to mend."""
    if not findings["wrong"]:
        return []
    return [
        f"mend the backward pass of {'; '.join(findings['culprits'])}: its gradient is not that of what it computes"
    ]


def overfit_rows(findings: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table."""
    lines = []
    for attempt in findings["tried"]:
        losses, at = attempt["losses"], f"at a constant rate of {attempt['rate']:g}"
        if not losses:
            lines.append(f"the first loss is not finite, {at}")
            continue
        end = "" if attempt["has_learnt"] or len(losses) > 1 else ", and then is not finite"
        lines.append(
            f"one batch of {attempt['num_samples']} samples: the loss goes from {losses[0]:.3g} to {losses[-1]:.3g} in "
            f"{len(losses)} steps {at}{end}"
        )
    lines.append("learnt by heart" if findings["has_learnt"] else "not learnt by heart")
    if findings["no_gradient"]:
        lines.append(f"no gradient reaches {some(findings['no_gradient'])}")
    yield "overfit", lines


def overfit_advice(findings: dict[str, Any], lr: float) -> list[str]:
    """Return what to do where one batch is not learnt, or only at another rate."""
    if not findings["has_learnt"]:
        return [
            "the net cannot learn one batch: see --only gradients, and whether its inputs and labels belong together"
        ]
    rate = findings["tried"][-1]["rate"]
    return [] if rate == lr else [f"--lr {rate:g}: one batch is learnt by heart with it, and not with {lr:g}"]


def some(names: list[str]) -> str:
    """Return the first of many names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
