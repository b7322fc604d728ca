"""Who contends, and one measurement of one contender: a process, with all its children, that ends in time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Union

from benchmarks.loader import environments
from benchmarks.loader.contenders.reading import BATCH_SIZE, SIZE

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 300
# From what mean the last batch's 64 pictures may differ, when pixels and normalisation are as they should be.
EXPECTED_MEAN = {"float32": (0.2, 0.4), "uint8": (127, 20)}
SHAPES = ((BATCH_SIZE, SIZE, SIZE, 3), (BATCH_SIZE, 3, SIZE, SIZE))


class Contender(NamedTuple):
    title: str
    module: str  # in benchmarks/loader/contenders
    environment: str = environments.OURS
    batches: tuple[str, ...] = ("float32", "uint8")
    is_loader: bool = True


CONTENDERS = {
    "mxtrain": Contender("**mxtrain**, threads", "mxtrain_threads", batches=("float32",)),
    "mxtrain_processes": Contender("**mxtrain**, processes", "mxtrain_processes", batches=("float32",)),
    "dali": Contender("DALI, CPU", "dali", "dali"),
    "tf_data": Contender("tf.data", "tf_data", "tensorflow"),
    "torch_simplejpeg": Contender("torch DataLoader, simplejpeg and OpenCV", "torch_simplejpeg", "torch"),
    "torch_pil": Contender("torch DataLoader, PIL", "torch_pil", "torch"),
    "image_record_iter": Contender("mxnet ImageRecordIter", "image_record_iter"),
    "gluon": Contender("gluon DataLoader", "gluon"),
    "decode": Contender("libjpeg-turbo, decoding alone", "decode_only", is_loader=False),
}


class Cell(NamedTuple):
    """What all contenders do side by side."""

    pack: str
    batch: str
    workers: int


class Measured(NamedTuple):
    cpu_milliseconds: float  # an image, of all processes
    images_per_second: float


class Absent(NamedTuple):
    """Why there is no number."""

    reason: str


Outcome = Union[Measured, Absent]


def measure(name: str, rec: Path, cell: Cell, num_images: int, warm_up: int, envs: Path) -> Outcome:
    """One contender in one cell, once."""
    contender = CONTENDERS[name]
    python = environments.interpreter(envs, contender.environment)
    if python is None:
        return Absent("not installed")
    if cell.batch not in contender.batches or (cell.workers > 1 and not contender.is_loader):
        return Absent("not offered")
    line = [python, "-m", f"benchmarks.loader.contenders.{contender.module}", rec, "--batch", cell.batch]
    line += ["--workers", cell.workers, "--images", num_images, "--warm-up", warm_up]
    exit_code, output, errors = _run([str(part) for part in line])
    if exit_code != 0:
        return Absent(f"failed: {(errors.split(chr(10)) or [''])[-1]} (exit code {exit_code})")
    found = json.loads(output.splitlines()[-1])
    if contender.is_loader and not _is_the_work(cell.batch, found):
        return Absent(f"failed: delivers {found['dtype']} {found['shape']} with mean {found['mean']:.3f}")
    images = found["num_images"]
    return Measured(1000 * found["cpu_seconds"] / images, images / found["wall_seconds"])


def _is_the_work(batch: str, found: dict[str, Any]) -> bool:
    mean, tolerance = EXPECTED_MEAN[batch]
    is_near = abs(found["mean"] - mean) <= tolerance
    return is_near and found["dtype"] == batch and tuple(found["shape"]) in SHAPES


def _run(line: list[str]) -> tuple[int, str, str]:
    """Exit code and output of a process in a session of its own, of which nothing is left when this returns."""
    neutral = {
        key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "MXNET_", "TF_"))
    }
    process = subprocess.Popen(
        line,
        cwd=ROOT,
        env=neutral,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        output, errors = "", f"no answer in {DEADLINE_SECONDS} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers that outlive it
        process.wait()
    return process.returncode, output, errors.strip()
