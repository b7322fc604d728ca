"""The run folder: the files of a run beside its checkpoints.

Owns `config.yaml` (the run, usable with --config), `environment.json` (all that is installed, kernels, command line,
git state), `logs/`, and setting an older run aside when one starts anew in its folder. What is there stays as it is
until the run has its first record: one that fails before, or has nothing left to do, changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import mxtrain
from mxtrain import config
from mxtrain.checkpoint import directory, locations, numeric_environment
from mxtrain.checkpoint.resume import ResumePoint
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import autocast_costs
from mxtrain.core import durable, folder_lock, formats, outputs, plain_text
from mxtrain.core.errors import UsageError
from mxtrain.core.system import distributions, wheels
from mxtrain.report.sinks import progress

logger = logging.getLogger(__name__)

ROLE_LOGS = ("scheduler", "server", "worker")  # a supervisor writes these, also at this moment


@contextlib.contextmanager
def locked(run: config.Run, group: WorkerGroup = SINGLE_WORKER) -> Iterator[Path]:
    """Keep other processes out of the run's folder while the block lasts; of workers on one disk one locks it.

    Yields the folder. What is logged goes to its log file from the moment on that there is one.
    """
    out = Path(run.output.out)
    if not group.is_writer:
        yield out
        return
    with _naming_out(out):
        handle = folder_lock.lock(out)
    logging.getLogger("mxtrain").addHandler(_EarlyLog())
    try:
        with _naming_out(out):
            directory.clean(out / "checkpoints")
        yield out
    finally:
        os.close(handle)
        _end_log()


class RunStart:
    """The changes to the run folder that come with a run's first record; called then, once."""

    def __init__(self, run: config.Run, resume_point: ResumePoint | None, group: WorkerGroup = SINGLE_WORKER):
        """Prepare the start of `run` from `resume_point`, None for a fresh one."""
        self.has_happened = False
        self._run, self._resume_point, self._is_writer = run, resume_point, group.is_writer
        self._out = Path(run.output.out)
        self._replaces = resume_point is None and any((self._out / "checkpoints").glob("*"))
        has_ended = resume_point is not None and resume_point.has_ended
        if not (self._replaces or has_ended):
            self._log()

    def __call__(self) -> None:
        """Set an older run aside if this one replaces it, and write down what is run now, and with what."""
        self.has_happened = True
        if not self._is_writer:
            return
        with _naming_out(self._out):
            if self._replaces:
                aside = _set_aside(self._out)
                logger.warning(
                    "%s: the run that was here is %s now, its checkpoints are in %s",
                    *(self._out, aside, aside / "checkpoints"),
                )
            self._log()
            if self._resume_point is not None:
                step = self._resume_point.checkpoint.state["step"]
                directory.set_aside_after(self._out / "checkpoints", step)
            durable.replace(self._out / "config.yaml", config.to_yaml(locations.absolute(self._run)))
            durable.replace(
                self._out / "environment.json", json.dumps(_environment(self._run), indent=1) + "\n"
            )

    def _log(self) -> None:
        """Send the log to the folder too, with what was logged before."""
        if self._is_writer:
            with _naming_out(self._out):
                log_to(self._out / "logs" / "fit.log")


@contextlib.contextmanager
def _naming_out(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in durable.FULL:
            raise durable.cannot_write_run(Path(error.filename or out), error) from None
        raise UsageError(
            f"--out {error.filename or out}: {error.strerror or error}; give another folder"
        ) from None


def evaluations(out: Path, step: int | None = None) -> list[dict[str, Any]]:
    """Return the evaluations in metrics.jsonl, in their order, up to `step` if given; damaged lines are skipped."""
    return [
        each for each in records(out) if each["kind"] == "eval" and (step is None or each["step"] <= step)
    ]


def records(out: Path) -> list[dict[str, Any]]:
    """Return the records in metrics.jsonl, in their order; damaged lines are skipped."""
    path = out / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    found: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # after a power cut, as long as no run goes on from there
            found.append(json.loads(line))
    return found


def _set_aside(out: Path) -> Path:
    """Move an older run's files to previous-N and return that folder: a fresh start deletes nothing."""
    old = [
        path for part in outputs.RUN_PARTS for path in out.glob(part) if not path.name.startswith(ROLE_LOGS)
    ]
    numbers = [int(path.name[9:]) for path in out.glob("previous-*") if path.name[9:].isdecimal()]
    aside = out / f"previous-{max(numbers, default=0) + 1}"
    (aside / "logs").mkdir(parents=True)
    for path in old:
        path.rename(aside / path.relative_to(out))
    return aside


def _environment(run: config.Run) -> dict[str, Any]:
    return {
        formats.KEY: formats.RUN,
        "command": [sys.executable, "-m", "mxtrain.fit", *sys.argv[1:]],
        "folder": str(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "mxtrain": mxtrain.__version__,
        "wheels": wheels.installed(),
        "distributions": distributions.installed(),
        "lock": distributions.lock(),
        "kernels": numeric_environment.kernels_used(),
        "amp_table": autocast_costs.digest_of_run(run.model.amp, run.model.amp_table),
        "host": platform.node(),
        "git": _git_state(),
    }


def _git_state() -> dict[str, Any] | None:
    """Return commit and uncommitted changes of the working folder; None outside a checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "uncommitted": plain_text.split_lines(_git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _end_log() -> None:
    """Take the run's file off the log: this process may have other runs."""
    root = logging.getLogger("mxtrain")
    for handler in [each for each in root.handlers if isinstance(each, (LogFile, _EarlyLog))]:
        root.removeHandler(handler)
        handler.close()


class LogFile(logging.FileHandler):
    """A log file that ignores a full disk, which logging would report in tracebacks; the run itself reports it."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with contextlib.suppress(
            OSError
        ):  # what is still unwritten; it would take the place of the run's own error
            super().close()


class _EarlyLog(logging.handlers.MemoryHandler):
    """A buffer for the log before its file is known."""

    def __init__(self) -> None:
        super().__init__(capacity=1 << 16, flushLevel=logging.CRITICAL + 1)


class _ToTerminal(logging.StreamHandler):  # type: ignore[type-arg]  # Python 3.8 has no StreamHandler[TextIO]
    """Logs to stderr, above the live line where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        with progress.hidden():
            super().emit(record)


def start_log(level: str, path: Path | None = None) -> None:
    """Send the log to stderr from `level` on, and all of it to the file `path` if one is given."""
    root = logging.getLogger("mxtrain")
    root.setLevel(logging.DEBUG)
    to_terminal = _ToTerminal()
    to_terminal.setFormatter(logging.Formatter("%(message)s"))
    to_terminal.setLevel(level.upper())
    root.handlers = [to_terminal]
    root.propagate = False
    if path is not None:
        log_to(path)


@contextlib.contextmanager
def log_of_caller() -> Iterator[None]:
    """A block in which the log goes where the caller's program has it go, at its levels, and to a run's file besides.

    Afterwards the logger is as it was.
    """
    root = logging.getLogger("mxtrain")
    before = root.level, root.handlers, root.propagate
    to_caller = _ToCaller(root)
    root.handlers, root.propagate = [to_caller], False
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.handlers, root.propagate = before[1:]
        root.setLevel(before[0])


class _ToCaller(logging.Handler):
    """Passes records on as the logger would have done before its handlers were replaced."""

    def __init__(self, replaced: logging.Logger):
        super().__init__(replaced.getEffectiveLevel())
        self._before = logging.Logger(replaced.name)
        self._before.handlers, self._before.propagate = replaced.handlers, replaced.propagate
        self._before.parent = replaced.parent

    def emit(self, record: logging.LogRecord) -> None:
        with progress.hidden():
            self._before.callHandlers(record)


def log_to(path: Path) -> None:
    """Send the log to the file `path` too, first what was buffered; no effect where there is a log file already."""
    root = logging.getLogger("mxtrain")
    if any(isinstance(handler, LogFile) for handler in root.handlers):
        return
    path.parent.mkdir(exist_ok=True)
    to_file = LogFile(str(path), encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for early in [handler for handler in root.handlers if isinstance(handler, _EarlyLog)]:
        root.removeHandler(early)
        early.setTarget(to_file)
        early.flush()
    root.addHandler(to_file)
