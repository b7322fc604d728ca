"""The sinks of a run's records: metrics.jsonl, which is the truth, and what `--log` names, which shows it.

Owns when they are opened, and what becomes of one that fails: it is given up, and the run goes on. Of metrics.jsonl
alone a failure ends the run. No number is made here: what is measured comes from the loop.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import sys
import time
from typing import Any, Callable, Iterator

import mxtrain
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config.components import import_path
from mxtrain.config.components.sinks import CONSOLE, SINKS
from mxtrain.core import errors
from mxtrain.report.sinks.console import Console
from mxtrain.report.sinks.json_lines import Before, JsonLines
from mxtrain.report.sinks.record import Record, event
from mxtrain.report.sinks.sink import Logged, Sink

logger = logging.getLogger(__name__)


class Report:
    """Takes the records of a run. Of several workers rank 0 shows them, and one per disk writes metrics.jsonl."""

    def __init__(
        self,
        run: Logged,
        group: WorkerGroup = SINGLE_WORKER,
        begin: Callable[[], None] = lambda: None,
        on_record: Callable[[Record], None] = lambda record: None,
    ):
        """Prepare it. `begin` is called before the first record, and only then files are made.

        `on_record` gets each record of rank 0 once it is written.
        """
        self._run, self._group, self._begin, self._on_record = run, group, begin, on_record
        self._lines: JsonLines | None = None
        self._sinks: dict[str, Sink] = {}
        self._has_begun, self._step, self._epoch = False, run.step, run.epoch
        self.initialise_seconds: float | None = None  # from the start of the attempt to the loop's
        self.lap: Callable[[], float] | None = None  # returns the seconds that no record has yet
        self.stop_reason: str | None = None  # why the run ends before its end, where no exception says so
        self._names = run.sinks if group.rank == 0 else ()
        if CONSOLE in self._names:
            self._open(CONSOLE)

    def write(self, record: Record) -> None:
        """Write a record everywhere; the first one begins the run."""
        if not self._has_begun:
            self._has_begun = True
            self._begin_files()
        self._step, self._epoch = record["step"], record["epoch"]
        self._write({**record, "time": record.get("time", time.time())})

    def event(self, name: str, text: str, step: int, epoch: int, **more: Any) -> None:
        """Write down what happened to the run; nothing happens to one that has not begun."""
        if self._has_begun:
            self.write(event(name, step, epoch, text, **more))

    def evaluating(self, done: int, total: int) -> None:
        """Show how many of the samples of an evaluation are done, where anybody looks."""
        console = self._sinks.get(CONSOLE)
        if isinstance(console, Console):
            console.evaluating(done, total)

    def close(self, error: BaseException | None) -> None:
        """Write down how the run ended, by `error` or without, and close all sinks."""
        with contextlib.suppress(Exception):  # of a full disk there has been an error already
            reason = self.stop_reason if error is None else _in_words(error)
            name = "end" if reason is None else "stop"
            more: dict[str, Any] = {} if reason is None else {"reason": reason}
            if self.lap is not None:
                more["seconds"] = round(self.lap(), 4)
            self.event(name, "the run is done" if reason is None else reason, self._step, self._epoch, **more)
        if self._lines is not None:
            self._lines.close()
        for sink in self._sinks.values():
            with contextlib.suppress(Exception):
                sink.close()

    def _begin_files(self) -> None:
        run = self._run
        self._begin()
        if self._group.is_writer:
            self._lines = JsonLines(run.out / "metrics.jsonl", run.step, run.is_scored)
        for name in self._names:
            if name != CONSOLE:
                self._open(name)
        before = self._lines.before if self._lines is not None else Before()
        self.write(_beginning(run, before, self.initialise_seconds))

    def _write(self, record: Record) -> None:
        if self._lines is not None:
            self._lines.write(record)
        for name, sink in list(self._sinks.items()):
            try:
                sink.write(record)
            except Exception as error:
                self._give_up(name, error)
        if self._group.rank == 0:
            self._on_record(record)

    def _open(self, name: str) -> None:
        try:
            self._sinks[name] = _open_sink(name, self._run)
        except Exception as error:
            self._give_up(name, error)

    def _give_up(self, name: str, error: Exception) -> None:
        """Say once that a sink has failed, and go on without it."""
        sink = self._sinks.pop(name, None)
        if sink is not None:
            with contextlib.suppress(Exception):
                sink.close()
        logger.warning(
            "--log %s: %s; the run goes on without it, metrics.jsonl has every number", name, _in_words(error)
        )


@contextlib.contextmanager
def open_sinks(
    run: Logged,
    group: WorkerGroup = SINGLE_WORKER,
    begin: Callable[[], None] = lambda: None,
    on_record: Callable[[Record], None] = lambda record: None,
) -> Iterator[Report]:
    """Yield the report of a run, and close it with how the block ended; the arguments are Report's."""
    report = Report(run, group, begin, on_record)
    try:
        yield report
    except BaseException as error:
        report.close(error)
        raise
    report.close(None)


def _open_sink(name: str, run: Logged) -> Sink:
    """Open a sink that --log names, or the user's own."""
    is_known = name in SINKS
    open_sink = SINKS[name].load() if is_known else import_path.load_callable("--log", name)
    sink: Sink = open_sink(run)
    return sink


def _versions() -> dict[str, str]:
    """Return the versions of what has been loaded; to ask for what is installed would take ten times as long."""
    versions = {"mxtrain": mxtrain.__version__, "python": platform.python_version()}
    for name in ("numpy", "cv2", "mxnet"):
        if name in sys.modules:
            versions[name] = str(sys.modules[name].__version__)
    return versions


def _in_words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        path = error.filename2 or error.filename
        return f"{path}: {error.strerror}" if path else error.strerror
    return str(error) if isinstance(error, errors.Stop) else errors.message_of(error)


def _beginning(run: Logged, before: Before, initialise_seconds: float | None) -> Record:
    """Return the event with which an attempt begins."""
    attempt = max(before.attempts, run.job_restarts, int(run.step > 0)) + 1
    fields: Record = {"attempt": attempt, "versions": _versions()}
    if initialise_seconds is not None:
        fields["initialise_seconds"] = round(initialise_seconds, 3)
    if attempt == 1:
        return event("start", run.step, run.epoch, f"the run begins, of {run.num_steps} steps", **fields)
    text = f"attempt {attempt} goes on from step {run.step}"
    if before.lost_steps:
        text += f"; {before.lost_steps} steps of the one before are done again"
    lost = {"lost_steps": before.lost_steps, "lost_seconds": before.lost_seconds}
    return event("restart", run.step, run.epoch, text, **fields, **lost)
