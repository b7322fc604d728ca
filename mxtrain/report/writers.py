"""Writers of a run's records: metrics.jsonl is the truth, the others show it.

A record is a plain dict with `kind` (train or eval), `step` and `epoch`. A sink has `write(record)` and `close()`.
Owns no number: what is measured comes from the loop.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, NamedTuple, Protocol, TextIO

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.core import durable
from mxtrain.report import progress

logger = logging.getLogger(__name__)

Record = Dict[str, Any]
FLUSH_SECONDS = 30.0  # from TensorBoard's events in memory to its file


class Shown(NamedTuple):
    """The names of the numbers that the console shows beside the loss and the rate."""

    unit: str = "images"  # of speed
    step_means: tuple[str, ...] = ("accuracy",)
    score: str = "accuracy"


OF_PICTURES = Shown()


class Sink(Protocol):
    def write(self, record: Record) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """A file with one JSON object a line, complete after every record.

    On resume, lines past the checkpoint are cut away: no step appears twice and none is missing. The evaluation
    after its last step is past it as long as the checkpoint has no score of it.
    """

    def __init__(self, path: Path, last_step: int, last_is_scored: bool):
        last_evaluation = last_step if last_is_scored else last_step - 1
        kept = [
            json.dumps(record)
            for record in _whole_records(path)
            if record["step"] <= (last_evaluation if record.get("kind") == "eval" else last_step)
        ]
        with durable.writing(path):
            durable.replace(path, "".join(line + "\n" for line in kept))
            self.path, self.file = path, path.open("a", buffering=1, encoding="utf-8")

    def write(self, record: Record) -> None:
        # JSON has no NaN: what is not finite is null.
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        with durable.writing(self.path):
            if not os.fstat(self.file.fileno()).st_nlink:  # what is written to a file without a name is lost
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self.file.write(json.dumps(finite) + "\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # only what could not be written before is left to write
            self.file.close()


def _whole_records(path: Path) -> Iterator[Record]:
    """Yield the records of the file; a line that a kill or a power failure has damaged is dropped with a warning."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            record = json.loads(line)
            record["step"] + 0
            yield record
        except (ValueError, TypeError, KeyError):
            logger.warning("%s: line %d is no record, dropped", path, number)


class Console:
    """A progress bar on a terminal; elsewhere a plain line at the first step and the last, and now and then between."""

    def __init__(
        self,
        num_steps: int,
        first_step: int,
        stream: TextIO | None = None,
        every_seconds: float = progress.LINE_SECONDS,
        shown: Shown = OF_PICTURES,
    ):
        self._of_step = ("loss", *shown.step_means, "lr", f"{shown.unit}_per_second")
        # Where the loss is the score the others say what it means, as perplexity does.
        self._of_evaluation = ("val_loss", f"val_{shown.score}") if shown.score != "loss" else ()
        self.num_steps, self.first_step, self.every_seconds = num_steps, first_step, every_seconds
        self.epoch: int | None = None
        # The stream is None where it was closed.
        self.progress = progress.ProgressDisplay(
            stream if stream is not None else sys.stderr, num_steps, first_step
        )

    def write(self, record: Record) -> None:
        if record["kind"] == "eval":
            shown = _shown(
                record, self._of_evaluation or [name for name in record if name.startswith("val_")]
            )
            self.progress.print_line(f"epoch {record['epoch']}: " + ", ".join(shown))
            return
        shown = _shown(record, self._of_step)
        text = f"epoch {record['epoch']} step {record['step']}/{self.num_steps}: " + ", ".join(shown)
        beside = ", ".join(_shown(record, ("loss", "lr")))
        self.progress.update(record["step"], text, beside, self._every_seconds(record))

    def close(self) -> None:
        self.progress.close()

    def _every_seconds(self, record: Record) -> float:
        """Return the time from the last line after which this step gets one; less where an epoch begins."""
        begins, self.epoch = self.epoch != record["epoch"], record["epoch"]
        if record["step"] in (self.first_step + 1, self.num_steps):
            return 0.0
        return self.every_seconds / 10 if begins else self.every_seconds


def _shown(record: Record, names: Any) -> list[str]:
    return [f"{name} {record[name]:.4g}" for name in names if name in record]


class TensorBoard:
    """The same numbers as TensorBoard scalars.

    Not written by SummaryWriter's thread: that dies of a full disk, and the next writer then waits for ever.
    """

    def __init__(self, folder: Path, last_step: int):
        from tensorboardX import event_file_writer, summary
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._folder, self._event, self._scalar = folder, Event, summary.scalar
        with durable.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = event_file_writer.EventsWriter(str(folder / "events"))
        begin = Event(step=last_step + 1, session_log=SessionLog(status=SessionLog.START))
        self._add(begin)  # hides an earlier run's records of the steps from there on
        self._flush()

    def write(self, record: Record) -> None:
        event = self._event(step=record["step"])
        for name, value in record.items():
            if name not in ("kind", "step", "epoch", "time") and isinstance(value, (int, float)):
                event.summary.MergeFrom(self._scalar(f"{record['kind']}/{name}", value))
        self._add(event)
        if time.monotonic() - self._flushed_seconds >= FLUSH_SECONDS:
            self._flush()

    def close(self) -> None:
        file = self._writer._py_recordio_writer._writer
        # As in JsonLines. On a full disk the first fails as it flushes, and leaves the file open, as Python would say.
        for close in (self._writer.close, file.close):
            with contextlib.suppress(OSError):
                close()

    def _add(self, event: Any) -> None:
        event.wall_time = time.time()
        with durable.writing(self._folder):
            self._writer.write_event(event)

    def _flush(self) -> None:
        self._flushed_seconds = time.monotonic()
        with durable.writing(self._folder):
            self._writer.flush()


@contextlib.contextmanager
def open_sinks(
    names: str,
    out: Path,
    num_steps: int,
    first_step: int,
    is_scored: bool = True,
    group: WorkerGroup = SINGLE_WORKER,
    begin: Callable[[], None] = lambda: None,
    numbers: Shown = OF_PICTURES,
    on_record: Callable[[Record], None] = lambda record: None,
) -> Iterator[Callable[[Record], None]]:
    """Yield a function that writes a record to metrics.jsonl and to what `--log` names.

    `first_step` steps are done, and evaluated if `is_scored`. Of several workers rank 0 shows records, and one per disk
    writes them. `begin` is called before the first record; only then are files created. `on_record` gets each record of
    rank 0 once it is written.
    """
    shown = names.split(",") if group.rank == 0 else []
    sinks: list[Sink] = [Console(num_steps, first_step, shown=numbers)] if "console" in shown else []
    has_begun = False

    def write(record: Record) -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            begin()
            sinks[:0] = _files(shown, out, first_step, is_scored, group)
        for sink in sinks:
            sink.write(record)
        if group.rank == 0:
            on_record(record)

    try:
        yield write
    finally:
        for sink in sinks:
            sink.close()


def _files(shown: list[str], out: Path, first_step: int, is_scored: bool, group: WorkerGroup) -> list[Sink]:
    found: list[Sink] = [JsonLines(out / "metrics.jsonl", first_step, is_scored)] if group.is_writer else []
    if "tensorboard" in shown:
        found.append(TensorBoard(out / "logs" / "tensorboard", last_step=first_step))
    return found
