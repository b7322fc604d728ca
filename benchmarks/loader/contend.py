"""The contenders, and one measurement of one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Union

from benchmarks.harness import environments, processes
from benchmarks.loader.contenders.reading import BATCH_SIZE, SIZE

# From what mean the last batch's 64 pictures may differ, when pixels and normalisation are as they should be.
EXPECTED_MEAN = {"float32": (0.2, 0.4), "uint8": (127, 20)}
FAILED = "failed"
DEADLINE_SECONDS = 300
SHAPES = ((BATCH_SIZE, SIZE, SIZE, 3), (BATCH_SIZE, 3, SIZE, SIZE))


class Contender(NamedTuple):
    title: str
    module: str  # in benchmarks/loader/contenders
    environment: str = environments.OURS
    is_loader: bool = True


CONTENDERS = {
    "mxtrain": Contender("**mxtrain**, threads", "mxtrain_threads"),
    "mxtrain_processes": Contender("**mxtrain**, processes", "mxtrain_processes"),
    "dali": Contender("DALI, CPU", "dali", "dali"),
    "tf_data": Contender("tf.data", "tf_data", "tensorflow"),
    "torch_simplejpeg": Contender("torch DataLoader, simplejpeg and OpenCV", "torch_simplejpeg", "torch"),
    "torch_pil": Contender("torch DataLoader, PIL", "torch_pil", "torch"),
    "image_record_iter": Contender("mxnet ImageRecordIter", "image_record_iter"),
    "gluon": Contender("gluon DataLoader", "gluon"),
    "decode": Contender("libjpeg-turbo, decoding alone", "decode_only", is_loader=False),
}


class Size(NamedTuple):
    """The number of pictures, and how many of them are loaded."""

    num_pictures: int
    warm_up: int
    measured: int


class Cell(NamedTuple):
    """A setting in which all contenders are measured."""

    pack: str
    batch: str
    workers: int


class Measured(NamedTuple):
    cpu_milliseconds: float  # an image, of all processes
    images_per_second: float


class Absent(NamedTuple):
    """A reason why there is no number."""

    reason: str


Outcome = Union[Measured, Absent]


def measure(name: str, rec: Path, cell: Cell, size: Size, envs: Path) -> Outcome:
    """Measure one contender in one cell, once."""
    contender = CONTENDERS[name]
    python = environments.interpreter(envs, contender.environment)
    if python is None:
        return Absent("not installed")
    if cell.workers > 1 and not contender.is_loader:
        return Absent("")
    line = [python, "-m", f"benchmarks.loader.contenders.{contender.module}", rec, "--batch", cell.batch]
    line += ["--workers", cell.workers, "--images", size.measured, "--warm-up", size.warm_up]
    ended = processes.attempt(*line, deadline_seconds=DEADLINE_SECONDS, is_neutral=True)
    if ended.exit_code != 0:
        return Absent(f"{FAILED}: {ended.last_error} (exit code {ended.exit_code})")
    found = ended.answer
    if contender.is_loader and not _is_the_work(cell.batch, found):
        return Absent(f"{FAILED}: delivers {found['dtype']} {found['shape']} with mean {found['mean']:.3f}")
    images = found["num_images"]
    return Measured(1000 * found["cpu_seconds"] / images, images / found["wall_seconds"])


def _is_the_work(batch: str, found: dict[str, Any]) -> bool:
    mean, tolerance = EXPECTED_MEAN[batch]
    is_near = abs(found["mean"] - mean) <= tolerance
    return is_near and found["dtype"] == batch and tuple(found["shape"]) in SHAPES
