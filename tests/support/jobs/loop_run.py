"""The training loop called as a command calls it, on a small pack of noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import cv2
import numpy as np

from mxtrain import config
from mxtrain.checkpoint import resume
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.core.errors import Stop
from mxtrain.data.loading import run_plan
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.report.sinks.record import Record
from mxtrain.tasks.classification import Classification
from mxtrain.train import loop
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net
from mxtrain.train.observer import RunObserver
from tests.support.nets.training_steps import QUICK_NET

CLASSES, SIZE, SAMPLES = 3, 16, 40

RecordHook = Callable[[Record, "list[Stop]"], None]


def pack(folder: Path) -> Path:
    """Write train.rec: three classes in turn, three steps of 16 samples, of which the last is short."""
    path = folder / "train.rec"
    rng = np.random.default_rng(0)
    with RecordWriter(path) as writer:
        for key in range(SAMPLES):
            pixels = rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
            writer.write(key, float(key % CLASSES), cv2.imencode(".png", pixels)[1].tobytes())
    return path


def run_of(packed: Path, out: Path, flags: str) -> config.Run:
    """Return two epochs of a small net on what `pack` has written."""
    every = (
        f"--model {QUICK_NET} --augment flip --batch-size 16 --micro-batch 4 --lr 0.05 --epochs 2 --log none"
    )
    line = f"--train {packed} --image-size {SIZE} --out {out} {every} {flags}"
    return config.parse(line.split())


def train(run: config.Run, on_record: RecordHook = lambda record, stop_requests: None) -> Any:
    """Train from the newest checkpoint, or from the start; `on_record` may add to the stop requests that it gets."""
    Path(run.output.out).mkdir(exist_ok=True)
    assert run.data.train is not None
    records = open_records(run.data.train)
    validation = open_records(run.data.val) if run.data.val else None
    task = Classification.numbered(run, CLASSES)
    identity = InputIdentity.of_run(run, records, validation, task.description)
    point = resume.find(run, identity)
    plan = run_plan.of_run(run, len(records))
    job = TrainingJob(task, records, validation, identity, plan, point and point.checkpoint)
    requests: list[Stop] = []

    class Observer(RunObserver):
        def record(self, record: Record) -> None:
            on_record(record, requests)

    with build_net.compiling(run.model.amp):
        return loop.train(job, requests, observer=Observer()).net


def records_of(out: Path) -> list[Record]:
    """Return all records of a run folder."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
