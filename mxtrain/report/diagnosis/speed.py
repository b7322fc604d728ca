"""Findings about time: what training waits for instead of computing. A run that computes most of the time has none.

Shares are of the wall time of the newest half of the steps: the first ones compile and fill buffers.
"""

from __future__ import annotations

from typing import NamedTuple

from mxtrain.report.diagnosis.finding import (
    Finding,
    as_number,
    doctor,
    duration,
    median,
    numbers,
    percent,
    setting,
    steps_of,
    total,
)
from mxtrain.report.diagnosis.workers import STAGES, seconds_of, workers_of
from mxtrain.report.history import History, Record

FEWEST_STEPS = 20
LEAST_SECONDS = 1.0  # waited in these steps: what is over in a moment needs no advice
MOST_LOADING = 0.2  # of the wall time
MOST_SYNCHRONIZING = 1 / 3  # two workers that share two cores wait a quarter of it for each other's turns
MOST_ELSEWHERE = 0.3  # evaluations, and checkpoints, beside the training between them
ELSEWHERE_SECONDS = 3.0
IDLE_GPU = 50.0  # per cent
FEWEST_GPU_SAMPLES = 6  # a minute


class _Share(NamedTuple):
    """A stage's part of the wall time of the newest half of the steps."""

    share: float
    seconds: float  # in all of these steps
    seconds_per_step: float  # in the mean
    steps: tuple[int, int] | None


def data_bound(history: History) -> Finding | None:
    """The loader is slower than the net, on each worker."""
    load = _waiting(history, "load", MOST_LOADING)
    if load is None:
        return None
    evidence = (
        f"{percent(load.share)} of the time waits for the loader: {duration(load.seconds_per_step)} of a step of "
        f"{duration(_step_seconds(history))}, {duration(load.seconds)} in {_num_newest(history)} steps.",
        *_loader_workers(history),
    )
    return Finding("data-bound", "Training waits for its data", evidence, _faster_data(history), load.steps)


def _loader_workers(history: History) -> tuple[str, ...]:
    workers = numbers(history.of_kind("epoch"), "loader_workers")
    return (f"{workers[-1]:.0f} loader workers were in use.",) if len(workers) and workers[-1] > 0 else ()


def _faster_data(history: History) -> str:
    measure = f"{doctor(history, 'data')} measures what each of them gives"
    is_of_pictures = setting(history, "task", "classification") in (
        "classification",
        "multilabel",
        "regression",
    )
    own = str(setting(history, "augment", ""))
    if ":" in own and "=" not in own:
        return f"--loader processes: if {own} holds Python's lock, or make it faster; {measure}"
    if is_of_pictures and setting(history, "cache", "none") == "none":
        return f"--cache ram: it (or disk) decodes each picture once; --loader-workers takes more cores; {measure}"
    return (
        f"--loader processes: where Python makes the samples; --loader-workers, as many as cores; {measure}"
    )


def comm_bound(history: History) -> Finding | None:
    """Sums over devices and workers take longer than they can be hidden behind computing."""
    wait = _waiting(history, "synchronize", MOST_SYNCHRONIZING)
    num_workers = as_number(setting(history, "num_workers", 1))
    if wait is None or not num_workers > 1:
        return None
    evidence = (
        f"{percent(wait.share)} of the time waits for the sums over {num_workers:.0f} workers: "
        f"{duration(wait.seconds_per_step)} of a step of {duration(_step_seconds(history))}.",
    )
    advice = (
        f"--batch-size {_times(history, 'batch_size', 2)}: with --lr to match, it has fewer sums for as many samples; "
        "--compress 2bit, --sums fast, more --num-servers; "
        f"{doctor(history, 'comm')} measures the sums alone"
    )
    return Finding("comm-bound", "Training waits for its sums", evidence, advice, wait.steps)


def _waiting(history: History, stage: str, most: float) -> _Share | None:
    """Return a stage's share on the worker that has least of it, if that is `most` or more and adds up to some time.

    What one worker has more than that makes a straggler. Without records of workers it is the share in the steps.
    """
    found = _share_of(history, stage)
    if found is None or found.seconds < LEAST_SECONDS:
        return None
    least = [
        min((seconds_of(worker, (stage,)) / max(seconds_of(worker, STAGES), 1e-9)) for worker in workers)
        for _, workers in workers_of(history)
    ]
    share = min(found.share, median(least)) if least else found.share
    return found._replace(share=share) if share >= most else None


def evaluating(history: History) -> Finding | None:
    """Evaluations take much of the time."""
    seconds = total(numbers(history.of_kind("eval"), "seconds"))
    if not _is_much(history, seconds):
        return None
    evidence = (_elsewhere(history, seconds, f"{len(history.of_kind('eval'))} evaluations"),)
    if setting(history, "evaluate_steps", 0):
        advice = f"--evaluate-steps {_times(history, 'evaluate_steps', 4)}: or 0, after each epoch alone"
    else:
        advice = "--val: with fewer samples, drawn at random, while training; evaluate the end on all of them"
    return Finding("evaluation-time", "Evaluations take much of the time", evidence, advice)


def saving(history: History) -> Finding | None:
    """Training waits much for checkpoints."""
    seconds = _saving_seconds(history)
    if not _is_much(history, seconds):
        return None
    evidence = (_elsewhere(history, seconds, f"{len(_checkpoints(history))} checkpoints"),)
    flag = "--checkpoint-steps 0" if setting(history, "checkpoint_steps", 0) else "--checkpoint-minutes 10"
    advice = f"{flag}: fewer of them; --out on a faster disk"
    return Finding("checkpoint-time", "Checkpoints take much of the time", evidence, advice)


def idle_gpu(history: History) -> Finding | None:
    """GPUs of the run have little to do."""
    records = [record for record in history.of_kind("system") if record.get("gpus")]
    used = [as_number(gpu.get("utilization_percent")) for record in records for gpu in record["gpus"]]
    is_on_gpu = str(setting(history, "devices", "")).startswith("gpu")
    if not is_on_gpu or len(records) < FEWEST_GPU_SAMPLES or not median(used) < IDLE_GPU:
        return None
    evidence = (f"GPUs are busy {median(used):.0f}% of the time in the median of {len(records)} samples.",)
    larger = _times(history, "batch_size", 2)
    advice = f"--batch-size {larger}: with --lr to match; or --amp fp16: larger pieces keep them busy"
    return Finding("gpu-idle", "GPUs have little to do", evidence, advice)


def _is_much(history: History, seconds: float) -> bool:
    return seconds > ELSEWHERE_SECONDS and seconds > MOST_ELSEWHERE * _all_seconds(history)


def _elsewhere(history: History, seconds: float, what: str) -> str:
    share, training = percent(seconds / _all_seconds(history)), duration(_wall_seconds(history))
    return f"{what} took {duration(seconds)} beside {training} of training: {share} of the time."


def _all_seconds(history: History) -> float:
    """Return the time of training, evaluations and checkpoints."""
    return (
        _wall_seconds(history) + total(numbers(history.of_kind("eval"), "seconds")) + _saving_seconds(history)
    )


def _saving_seconds(history: History) -> float:
    return total(numbers(_checkpoints(history), "seconds"))


def _checkpoints(history: History) -> list[Record]:
    return [record for record in history.of_kind("event") if record.get("event") == "checkpoint"]


def _wall_seconds(history: History) -> float:
    stages = sum(total(history.column(f"{stage}_seconds")) for stage in STAGES)
    return stages or total(history.column("seconds"))


def _share_of(history: History, stage: str) -> _Share | None:
    """Return None where the run has recorded no stages, or too few steps."""
    first = history.num_steps // 2
    if history.num_steps < FEWEST_STEPS or f"{stage}_seconds" not in history.train:
        return None
    seconds = history.column(f"{stage}_seconds")[first:]
    wall = sum(total(history.column(f"{each}_seconds")[first:]) for each in STAGES)
    return (
        _Share(total(seconds) / wall, total(seconds), total(seconds) / len(seconds), steps_of(history, first))
        if wall
        else None
    )


def _num_newest(history: History) -> int:
    return history.num_steps - history.num_steps // 2


def _step_seconds(history: History) -> float:
    first = history.num_steps // 2
    return sum(total(history.column(f"{each}_seconds")[first:]) for each in STAGES) / _num_newest(history)


def _times(history: History, flag: str, factor: int) -> str:
    value = as_number(setting(history, flag))
    return f"{factor * value:.0f}" if value > 0 else f"{factor} times larger"
