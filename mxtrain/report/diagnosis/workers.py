"""A finding about workers: one that the others wait for, and why.

Owns how `workers` records are read, for findings about time too.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from mxtrain.report.diagnosis.finding import Finding, as_number, duration, median, total
from mxtrain.report.history import History, Record

SLOWER = 1.3  # a worker's own time beside the median of the others: less is chance on a shared machine
LEAST_SHARE = 0.1  # of a step that the others wait for it
FEWEST_SAMPLES = 4
FIRST_SAMPLE = 20  # a step: before, processes settle
MOST_ROUNDS = 0.75  # of the samples, in which it is the slowest one
LESS_CPU = 0.8  # of the CPU time a second that the others get while they compute
LEAST_SECONDS = 0.5  # that they have waited in all

OWN_STAGES = ("split", "load", "compute", "update")
STAGES = (*OWN_STAGES, "synchronize", "other")


def straggler(history: History) -> Finding | None:
    """The other workers wait for the same one."""
    samples = [workers for step, workers in workers_of(history) if step >= FIRST_SAMPLE]
    samples = samples[-2 * FEWEST_SAMPLES :]
    if len(samples) < FEWEST_SAMPLES:
        return None
    slowest = [max(workers, key=lambda each: seconds_of(each, OWN_STAGES)) for workers in samples]
    rank = int(median([each["rank"] for each in slowest]))
    rounds = sum(each["rank"] == rank for each in slowest)
    if rounds < MOST_ROUNDS * len(samples):
        return None
    samples = [for_as_much(workers, rank) for workers in samples]
    if any(len(workers) < 2 for workers in samples):
        return None  # the others compute nothing
    own = np.array([seconds_of(_of(workers, rank), OWN_STAGES) for workers in samples])
    others = np.array([_median_of_others(workers, rank, OWN_STAGES) for workers in samples])
    late = median(own - others)
    if not median(own / np.maximum(others, 1e-9)) > SLOWER or late < LEAST_SHARE * median(own):
        return None
    if late * history.num_steps < LEAST_SECONDS:
        return None
    stage, reason, advice = _why_late(samples, rank)
    host = _of(samples[-1], rank).get("host")
    evidence = (
        f"Worker {rank}{f' on {host}' if host else ''} takes {duration(median(own))} a step for itself, the others "
        f"{duration(median(others))}; it was the slowest in {rounds} of {len(samples)} samples.",
        reason,
    )
    steps = [int(record["step"]) for record in history.of_kind("workers")][-len(samples) :]
    title = f"Worker {rank} holds up the others, by its {stage}"
    return Finding("straggler", title, evidence, advice, (steps[0], steps[-1]))


def _why_late(samples: list[list[Record]], rank: int) -> tuple[str, str, str]:
    """Return which of its stages takes longer, that in a sentence, and what to do."""

    def late_by(stage: str) -> float:
        return median(
            [
                seconds_of(_of(each, rank), (stage,)) - _median_of_others(each, rank, (stage,))
                for each in samples
            ]
        )

    stage = max(OWN_STAGES, key=late_by)
    more = f"Its {stage} takes {duration(late_by(stage))} longer than that of the others."
    if stage in ("split", "load"):
        return (
            "data",
            more,
            "--cache ram: or a faster disk on that host, or more --loader-workers if its cores are idle",
        )
    # A worker that waits needs no CPU, so what counts is CPU time by the time it computes.
    mine, theirs = (
        median(
            [
                _cpu_while_busy(each)
                for workers in samples
                for each in workers
                if (each["rank"] == rank) == is_own
            ]
        )
        for is_own in (True, False)
    )
    if mine < LESS_CPU * theirs:
        more += f" It gets {mine:.0f}% of a core while it computes, the others {theirs:.0f}%."
        return (
            "CPU",
            more,
            "--threads: with fewer on its host, or less else running there; it is short of CPU time",
        )
    return (
        "computing",
        more,
        "--num-workers: without that host, or with one as fast as the others; each gets as many samples",
    )


def _cpu_while_busy(worker: Record) -> float:
    busy, whole = seconds_of(worker, OWN_STAGES), seconds_of(worker, STAGES)
    return as_number(worker.get("cpu_percent")) * whole / busy if busy > 0 else float("nan")


def workers_of(history: History) -> list[tuple[int, list[Record]]]:
    """Return the step and the workers of each `workers` record that has several."""
    found = [(int(record["step"]), record.get("workers")) for record in history.of_kind("workers")]
    return [
        (step, each)
        for step, each in found
        if isinstance(each, list) and len(each) > 1 and all("rank" in one for one in each)
    ]


def for_as_much(workers: Sequence[Record], rank: int) -> list[Record]:
    """Return worker `rank`, and those others that compute, with the times that they would take for as much as it.

    So nobody is slow for having more micro-batches a step, nor beside one that has none. Records of earlier versions do
    not tell how many; all count alike then.
    """
    share = _share(_of(workers, rank))
    found = []
    for worker in workers:
        factor = max(1.0, share / _share(worker)) if worker["rank"] != rank and _share(worker) else 1.0
        times = {name: factor * as_number(worker[name]) for name in worker if name.endswith("_seconds")}
        if worker["rank"] == rank or _share(worker):
            found.append({**worker, **times})
    return found


def _share(worker: Record) -> int:
    return int(worker.get("micro_batches", 1))


def seconds_of(worker: Record, stages: tuple[str, ...]) -> float:
    return total([as_number(worker.get(f"{stage}_seconds")) for stage in stages])


def _of(workers: Sequence[Record], rank: int) -> Record:
    return next((each for each in workers if each["rank"] == rank), {})


def _median_of_others(workers: list[Record], rank: int, stages: tuple[str, ...]) -> float:
    return median([seconds_of(each, stages) for each in workers if each["rank"] != rank])
