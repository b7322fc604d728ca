"""Examples a second of the same DeepFM on the same clicks: mxtrain's, PyTorch's and TensorFlow's."""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
from pathlib import Path
from typing import Callable, NamedTuple

from benchmarks.harness import commands, environments, groups, processes
from benchmarks.harness.groups import Process, ProcessGroup
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import Bar, markdown
from benchmarks.tables import clicks

BATCH, RATE = 2048, 0.001  # of a worker
NUM_WORKERS = NUM_SERVERS = 2
WARM_STEPS = 5
ENVIRONMENTS = ("torch", "tensorflow")
OURS, OURS_SPREAD = "mxtrain, one process", "mxtrain, two workers, two servers"
TORCH, GLOO = "PyTorch, EmbeddingBag(sparse=True)", "PyTorch, two ranks, dense over gloo"
TENSORFLOW = "TensorFlow, ParameterServerStrategy, asynchronous"


class Ran(NamedTuple):
    """Measured of a run: examples a second, and the mean loss of its last quarter."""

    speed: float
    loss: float


def measured(options: argparse.Namespace) -> dict[str, list[Ran]]:
    """Return what all sides did in each round."""
    turns: dict[str, Callable[[], Ran]] = {
        OURS: lambda: _ours(options, 1),
        TORCH: lambda: _torch(options, 1),
        OURS_SPREAD: lambda: _ours(options, NUM_WORKERS),
        GLOO: lambda: _torch(options, NUM_WORKERS),
        TENSORFLOW: lambda: _tensorflow(options),
    }
    return in_turns(turns, options.rounds, to_and_fro=True)


def _ours(options: argparse.Namespace, workers: int) -> Ran:
    num_samples = workers * BATCH * options.steps
    train = options.folder / f"clicks-{options.ids}-{num_samples}.npz"
    if not train.exists():
        clicks.write(train, clicks.made(num_samples, options.ids))
    spread = ("--kvstore", "dist_sync", "--update", "servers", "--num-workers", workers)
    out = options.folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    commands.fit(
        out,
        *("--task", "recommendation", "--model", "deepfm:optimizer=adagrad", "--train", train),
        *("--categories", ",".join(f"c{column}" for column in range(clicks.NUM_CATEGORIES))),
        *("--target", "click", "--optimizer", "adam", "--lr", RATE, "--schedule", "constant"),
        *("--batch-size", workers * BATCH, "--micro-batch", BATCH, "--epochs", 1, "--sample-steps", 0),
        *((*spread, "--num-servers", NUM_SERVERS) if workers > 1 else ()),
    )
    records = commands.records(out, "train")
    return _ran([each["seconds"] for each in records], [each["loss"] for each in records], workers)


def _torch(options: argparse.Namespace, workers: int) -> Ran:
    python = environments.pytorch(options.envs, "torch", "tables")
    job = _job(options, workers, threads=0 if workers == 1 else 1, port=groups.free_port())
    line = [python, "-m", "benchmarks.tables.torch_side", job]
    ranks = [Process([*line, rank], {"GLOO_SOCKET_IFNAME": "lo"}) for rank in range(workers)]
    with ProcessGroup(ranks, workers, is_one_thread=workers > 1) as group:
        found = [json.loads(output.splitlines()[-1]) for output in group.end(options.deadline)]
    losses = [statistics.mean(of_step) for of_step in zip(*(each["losses"] for each in found))]
    return _ran([max(of_step) for of_step in zip(*(each["seconds"] for each in found))], losses, workers)


def _tensorflow(options: argparse.Namespace) -> Ran:
    python = environments.interpreter(options.envs, "tensorflow")
    if python is None:
        raise SystemExit(f"no TensorFlow in {options.envs}: python -m benchmarks.tables --setup")
    counts = {"ps": NUM_SERVERS, "worker": NUM_WORKERS, "chief": 1}
    ports = {role: [groups.free_port() for _ in range(count)] for role, count in counts.items()}
    job = _job(options, NUM_WORKERS, threads=1, ports=ports)
    line = [python, "-m", "benchmarks.tables.tensorflow_side", job]
    others = [[role, number] for role in ("ps", "worker") for number in range(counts[role])]
    with ProcessGroup([Process([*line, *each], {}) for each in others], NUM_WORKERS):  # which never end
        chief = processes.run(*line, "chief", 0, deadline_seconds=options.deadline, OMP_NUM_THREADS="1")
    found = chief.answer
    return Ran(NUM_WORKERS * BATCH / statistics.median(found["seconds"]), found["losses"][-1])


def _job(options: argparse.Namespace, workers: int, **of_side: object) -> Path:
    """Write down what a side has to do, and return the file."""
    path: Path = options.folder / "job.json"
    job = {"workers": workers, "num_ids": options.ids, "lr": RATE, "steps": options.steps}
    path.write_text(json.dumps({**job, "batch_size": workers * BATCH, **of_side}), encoding="utf-8")
    return path


def _ran(seconds: list[float], losses: list[float], workers: int) -> Ran:
    last = losses[-(len(losses) // 4) :]
    return Ran(workers * BATCH / statistics.median(seconds[WARM_STEPS:]), statistics.mean(last))


def table(found: dict[str, list[Ran]]) -> str:
    """Return a row for each side, of medians."""
    rows = [
        (side, *(f"{statistics.median(each):,{form}}" for each, form in zip(zip(*ran), (".0f", ".3f"))))
        for side, ran in found.items()
    ]
    return markdown(("", "examples a second", "loss"), rows, "lr")


def bars(found: dict[str, list[Ran]]) -> list[Bar]:
    """Return the bars, by the medians of the ratios of each round."""
    made = []
    for ours, theirs, least in ((OURS_SPREAD, TENSORFLOW, 1.5), (OURS_SPREAD, GLOO, 1.0), (OURS, TORCH, 1.0)):
        ratio = statistics.median(one.speed / other.speed for one, other in zip(found[ours], found[theirs]))
        made.append(
            Bar(f"{ours}: times as fast as {theirs}", f"{ratio:.2f}", f"at least {least}", ratio >= least)
        )
    return made
