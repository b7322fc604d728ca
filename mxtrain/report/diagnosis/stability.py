"""Findings about what a run costs its machine, and what it loses on the way: memory, skipped steps, restarts."""

from __future__ import annotations

import numpy as np

from mxtrain.report.diagnosis.finding import (
    Finding,
    as_number,
    duration,
    median,
    numbers,
    percent,
    setting,
    steps_of,
    total,
)
from mxtrain.report.history import History

FEWEST_SYSTEM = 18  # records of ten seconds each: three minutes
GROWTH = 0.2  # of the memory between the second third and the last
GROWTH_BYTES = 200e6
FEWEST_STEPS = 100
MOST_SKIPPED = 0.02  # dynamic loss scales skip one step of 2,000, and some at the start
LOWEST_SCALE = 1.0
LOST_SHARE = 0.1  # of the training time
LOST_SECONDS = 5.0
MANY_RESTARTS = 3


def memory_growing(history: History) -> Finding | None:
    """The memory of a host's processes grows and grows."""
    for host in dict.fromkeys(record.get("host") for record in history.of_kind("system")):
        records = [record for record in history.of_kind("system") if record.get("host") == host]
        used = numbers(records, "rss_bytes")
        if len(used) < FEWEST_SYSTEM or not np.isfinite(used).all():
            continue
        third = len(used) // 3
        # The highest of one third is below the lowest of the next: no coming and going of batches and checkpoints.
        first, middle, last = used[:third], used[third : 2 * third], used[2 * third :]
        grown = median(last) - median(middle)
        if not (last.min() > middle.max() and middle.min() > median(first)):
            continue
        if grown < GROWTH_BYTES or grown < GROWTH * median(middle):
            continue
        steps = (int(records[0]["step"]), int(records[-1]["step"]))
        evidence = (
            f"The processes on {host} held {median(middle) / 1e9:.2g} GB in the second third of the run and hold "
            f"{used[-1] / 1e9:.2g} GB now.",
        )
        advice = (
            "--loader threads: if your --augment or data set keeps what it has read; arrays kept by a hook, a metric "
            "or a loss of your own grow so too; --cache ram grows in the first epoch only"
        )
        return Finding("memory-growing", "Memory grows", evidence, advice, steps)
    return None


def skipped_steps(history: History) -> Finding | None:
    """Many steps are skipped, because numbers overflow."""
    if history.num_steps < FEWEST_STEPS or "skipped_steps" not in history.train:
        return None
    skipped = history.column("skipped_steps")
    count = float(np.nanmax(skipped)) if np.isfinite(skipped).any() else 0.0
    scale = history.column("loss_scale")[-1]
    is_low = np.isfinite(scale) and scale < LOWEST_SCALE
    if count < MOST_SKIPPED * history.num_steps and not is_low:
        return None
    evidence: tuple[str, ...] = (
        f"{count:.0f} of {history.num_steps} steps were skipped, as numbers were not finite.",
    )
    if np.isfinite(scale):
        evidence += (f"The loss scale has come down to {scale:g}.",)
    has_clip = setting(history, "clip_norm", 0)
    advice = "--amp bf16" if np.isfinite(scale) else "--lr, lower" if has_clip else "--clip-norm 1"
    return Finding(
        "skipped-steps",
        "Many steps are skipped",
        evidence,
        f"{advice}: it keeps numbers within bounds; a lower --lr too",
        steps_of(history),
    )


def costly_restarts(history: History) -> Finding | None:
    """Restarts have lost much of what was trained."""
    restarts = [record for record in history.of_kind("event") if record.get("event") == "restart"]
    seconds, steps = (total(numbers(restarts, key)) for key in ("lost_seconds", "lost_steps"))
    training = total(history.column("seconds"))
    is_costly = seconds > LOST_SECONDS and seconds > LOST_SHARE * (training + seconds)
    if not restarts or not (is_costly or len(restarts) >= MANY_RESTARTS):
        return None
    evidence = (
        f"{len(restarts)} restarts; {steps:.0f} steps and {duration(seconds)} were trained once more, beside "
        f"{duration(training)} that counted ({percent(seconds / max(training + seconds, 1e-9))} lost).",
        f"The last one: {restarts[-1].get('text', '')}",
    )
    minutes = as_number(setting(history, "checkpoint_minutes", 0))
    flag = f"--checkpoint-minutes {minutes / 2:g}" if minutes > 0 else "--checkpoint-minutes 5"
    advice = f"{flag}: less is lost each time; logs/ in the run folder say why processes ended"
    where = (int(restarts[0]["step"]), int(restarts[-1]["step"]))
    return Finding("restarts", "Restarts cost much", evidence, advice, where)
