"""The largest micro-batch that fits into memory, and the fastest: found by growing and halving.

Owns the search and what it says; each size is tried in a process of its own (`memory_trial.py`), which is ended before
it takes what the machine needs. Never loads mxnet.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator, NamedTuple

from mxtrain.config import Run, batch_plan
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine
from mxtrain.doctor.run import trials
from mxtrain.doctor.run.rates import Rate, is_faster
from mxtrain.doctor.run.trials import Bench, TooLarge

SHARE_OF_MEMORY = 0.8  # of what the machine has left: it stays usable, whatever is tried
SPARE = 0.05  # of the limit: a run holds a little that no trial does, as the numbers of its evaluations
CLOSE_ENOUGH = 1 / 8  # of the largest size that fits: there the search ends
WAVES = 2  # of a trial's step: gradients are added up, as where a step has more than one


class Fit(NamedTuple):
    """A size that was tried: its rate and memory, or the reason why it is too large."""

    size: int
    rate: Rate | None = None
    peak_bytes: int = 0
    reason: str = ""


def examine(bench: Bench, memory: int, seconds: float) -> dict[str, Any]:
    """Return the sizes that were `tried`, the `largest` that fits and the one of the run; `memory` 0: what is left."""
    plan = batch_plan.of_run(bench.run)
    left = int(SHARE_OF_MEMORY * machine.available_memory() / bench.local_workers)
    limit = min(memory, left) if memory else left
    most = math.ceil(plan.batch_size / plan.num_replicas)
    has_statistics: set[bool] = set()

    def attempt(size: int) -> Fit:
        flags = trial_flags(bench.run, size)
        try:
            measured = trials.measure(
                bench.with_flags(**flags), "memory", int((1 - SPARE) * limit), seconds=seconds
            )
        except TooLarge as reason:
            return Fit(size, reason=str(reason))
        has_statistics.add(measured["has_running_statistics"])
        return Fit(size, Rate(*measured["rate"]), measured["peak_rss_bytes"])

    tried = search(attempt, min(plan.micro_batch, most), most)
    fitting = [each for each in tried if each.rate]
    if not fitting:
        raise UsageError(
            f"--micro-batch 1: does not fit into {limit / 2**20:,.0f} MiB ({tried[-1].reason}); give a smaller net, "
            "--remat, or a smaller --prefetch-mb"
        )
    return {
        **{"tried": tried, "largest": fitting[-1].size, "given": plan.micro_batch, "most": most},
        **{"limit_bytes": limit, "has_running_statistics": True in has_statistics},
    }


def trial_flags(run: Run, size: int) -> dict[str, Any]:
    """Return the flags of a run of one worker whose steps are as large as it takes to tell the memory of `size`."""
    num_devices = len(batch_plan.parse_devices(run.layout.devices))
    batch_size = min(run.optim.batch_size, WAVES * size * num_devices)
    return {
        **{"micro_batch": size, "batch_size": batch_size, "accumulate": 0, "compress": "none"},
        **{"kvstore": "device", "num_workers": 1, "min_workers": 0},
    }


def search(attempt: Callable[[int], Fit], first: int, most: int) -> list[Fit]:
    """Return what was tried, by size, up to `most`: from `first` on doubled or halved, then between the two."""
    tried = {first: attempt(first)}

    def fits(size: int) -> bool:
        if size not in tried:
            tried[size] = attempt(size)
        return tried[size].rate is not None

    good, bad = (first, None) if fits(first) else (0, first)
    while bad is None and good < most:
        larger = min(2 * good, most)
        good, bad = (larger, None) if fits(larger) else (good, larger)
    while bad is not None and not good and bad > 1:
        good, bad = (bad // 2, bad) if fits(bad // 2) else (0, bad // 2)
    while bad is not None and good and bad - good > max(1, CLOSE_ENOUGH * good):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return sorted(tried.values())


def fastest(findings: dict[str, Any]) -> Fit | None:
    """Return the size that is faster than the run's own beyond chance; None where that is as good as any."""
    fitting = [each for each in findings["tried"] if each.rate]
    own = next((each for each in fitting if each.size == findings["given"]), None)
    best = max(fitting, key=lambda each: each.rate.median)
    return best if own is None or is_faster(best.rate, own.rate) else None


def rows(findings: dict[str, Any], unit: str, units: float) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table."""
    lines = [
        f"{each.size}: {each.peak_bytes / 2**20:,.0f} MiB, {each.rate.times(units)} {unit}/s"
        if each.rate
        else f"{each.size}: too large, {each.reason}"
        for each in findings["tried"]
    ]
    largest, limit = findings["largest"], f"{findings['limit_bytes'] / 2**20:,.0f} MiB"
    more = "; it is all that --batch-size gives a device" if largest == findings["most"] else ""
    yield "micro-batch", [*lines, f"the largest that fits into {limit} is {largest}{more}"]


def advice(findings: dict[str, Any], unit: str, units: float) -> list[str]:
    """Return the flag of the fastest size, and what else it changes."""
    best = fastest(findings)
    if best is None or best.rate is None:
        return []
    effect = (
        "; it changes what BatchNorm normalises over, and so the curve"
        if findings["has_running_statistics"]
        else ""
    )
    own = next((each for each in findings["tried"] if each.size == findings["given"] and each.rate), None)
    instead = (
        f" instead of {own.rate.times(units)} with {own.size}"
        if own and own.rate
        else f": {findings['given']} does not fit"
    )
    return [f"--micro-batch {best.size}: {best.rate.times(units)} {unit}/s{instead}{effect}"]
