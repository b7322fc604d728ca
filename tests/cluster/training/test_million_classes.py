"""A head of a million classes on a server: a worker that trains it holds two of its chunks, whatever it does."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from pathlib import Path
from typing import Any, Sequence

import pytest

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.cluster.worker_group import SingleWorker
from mxtrain.optim.precision import LossScale
from mxtrain.runtime import mx
from mxtrain.train import state
from mxtrain.train.context import TrainContext
from mxtrain.train.held import choice
from mxtrain.train.net import build_net
from mxtrain.train.step_end import StepResult
from tests.support.jobs.allreduce_jobs import numbers_of
from tests.support.jobs.owner_jobs import DEADLINE_SECONDS
from tests.support.nets.training_steps import CLASSES as NUM_LABELS
from tests.support.nets.training_steps import batches, job_of
from tests.support.processes.warm_start import WarmFunction

CLASSES, ROWS, WIDTH, SAMPLES = 1_000_000, 65_536, 128, 32
CHUNK_MIB = ROWS * WIDTH * 4 / 2**20
SLACK_MIB = 16  # blocks of logits, the net and what it computes, the grid, the list of classes
FLAGS = f"--batch-size {2 * SAMPLES} --micro-batch {SAMPLES} --momentum 0 --lr 0.1 --loss arcface:scale=16,margin=0.3"
FLAGS += f" --kvstore dist_sync --update servers --head-chunk {ROWS} --threads 1 --image-size 16"


def wide_net(num_classes: int) -> Any:
    net = mx.gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3, strides=4, activation="relu"), mx.gluon.nn.Dense(WIDTH))
        net.add(mx.gluon.nn.Dense(num_classes))
    return net


def memory(which: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def one_step(context: TrainContext, step: int) -> StepResult:
    of_step: Any = batches(2 * SAMPLES, SAMPLES, 0)
    return choice.step_of(context)(context, of_step, lambda batch: None, step, 0.1, LossScale())


def train(numbers: Sequence[int], out: Path) -> None:
    """Draw first weights, train, evaluate and write a checkpoint; write how much memory each has taken at the most."""
    line = f"--train t.rec --model {__name__}:wide_net --out {out} {FLAGS}"
    run = config.parse(line.split())
    group = SingleWorker()
    group.owners = numbers
    job = dataclasses.replace(job_of(run, CLASSES), group=group)
    few = job_of(config.parse([*line.split(), "--kvstore", "local", "--update", "workers"]), NUM_LABELS)
    one_step(choice.context_of(few), 0)  # whose libraries take memory at their first use
    before, grown, losses = memory("VmRSS"), {}, []

    def note(name: str) -> None:
        grown[name] = memory("VmHWM") - before

    context = choice.context_of(job)
    note("first weights")
    progress = state.TrainState(0, LossScale())
    for step in range(2):
        result = one_step(context, step)
        progress = progress.after_step(result)
        losses.append(result.loss)
        note(f"step {step}")
    arrays = {name: mx.nd.array(array) for name, array in batches(SAMPLES, SAMPLES, 0)[0].arrays.items()}
    losses.append(context.plain_forward(context.net, arrays).losses.mean().asscalar().item())
    note("evaluation")
    path = directory.write(out / "checkpoints", state.snapshot(context, progress))
    note("checkpoint")
    size = (path / directory.WEIGHTS).stat().st_size
    (out / "result.json").write_text(json.dumps({"mib": grown, "losses": losses, "size": size}))
    context.trainer.owners.close()  # type: ignore[attr-defined]


def compiled(numbers: Sequence[int], out: Path) -> None:
    with build_net.compiling("off"):
        train(numbers, out)


def serve(numbers: Sequence[int]) -> None:
    from mxtrain.kvstore.owners import server

    server.serve(numbers[0], 0, 1, 1, DEADLINE_SECONDS)


@pytest.mark.slow  # in small: tests/cluster/training/test_head_chunks.py
@pytest.mark.timeout(500)
def test_a_worker_takes_the_memory_of_two_chunks(tmp_path: Path) -> None:
    numbers, out = numbers_of(["here"]), tmp_path / "run"
    out.mkdir()
    server = WarmFunction(functools.partial(serve, numbers), tmp_path / "server.log")
    worker = WarmFunction(functools.partial(compiled, numbers, out), tmp_path / "worker.log")
    try:
        assert worker.wait(400) == 0, (tmp_path / "worker.log").read_text()
    finally:
        for process in (worker, server):
            process.kill()
            process.wait()
    found = json.loads((out / "result.json").read_text())
    print(found)
    assert CHUNK_MIB < max(found["mib"].values()) < 2 * CHUNK_MIB + SLACK_MIB, found
    assert found["size"] > CLASSES * WIDTH * 4
    assert found["losses"][0] > found["losses"][1] > math.log(CLASSES) / 2
