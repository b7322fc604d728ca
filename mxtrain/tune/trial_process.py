"""The run of a trial: its folder, its process, and the evaluations that it has recorded.

Owns starting `mxtrain.fit` in that folder on its share of the cores, and what its end means. A trial's run is an
ordinary one: `mxtrain.fit --config OUT/trials/0007/config.yaml` starts or resumes it by hand.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Sequence

from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.config import Run
from mxtrain.core import durable
from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import DATA, DIVERGED, DONE, REMEDIES, USAGE, UsageError
from mxtrain.report.history import History
from mxtrain.tasks.interfaces.learning import NO_NUMBER

NEED_NOT_AGREE = ("out", "resume", "threads", "sums", "log", "log_level", "quiet")  # of the same trial
TAIL_BYTES = 8192


class Meaning(enum.Enum):
    """The meaning that the end of a trial's process has for the search."""

    DONE = "done"
    DIVERGED = "diverged"
    REFUSED = "refused"  # these flags do not go together
    AGAIN = "again"  # killed, or ended by a failure that may pass
    FAILED = "counts as failed"
    ENDS_SEARCH = "ends the search"  # the next trial would fail in the same way


def meaning_of(code: int, message: str, has_stepped: bool) -> Meaning:
    """Return what an exit code means, of a process whose last line was `message`; minus a signal if that ended it."""
    if code == DONE:
        return Meaning.DONE
    if code == DIVERGED:
        return Meaning.DIVERGED
    if code == USAGE and NO_NUMBER in message:  # another trial's net may have a score
        return Meaning.FAILED
    if code == USAGE and not has_stepped and not any(each in message for each in REMEDIES.values()):
        return Meaning.REFUSED
    return Meaning.ENDS_SEARCH if code in (USAGE, DATA) else Meaning.AGAIN


def prepare(folder: Path, run: Run) -> None:
    """Write the config of a trial's run; a run with other flags that is in its folder is set aside."""
    run = locations.absolute(run)
    path = folder / "config.yaml"
    with durable.writing(path):
        if path.exists() and not _agrees(path, run):
            numbers = range(1, len(list(folder.parent.iterdir())) + 1)
            aside = (folder.with_name(f"{folder.name}-before-{number}") for number in numbers)
            folder.rename(next(each for each in aside if not each.exists()))
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        durable.replace(path, config.to_yaml(run))


def _agrees(path: Path, run: Run) -> bool:
    try:
        before, now = config.to_flat(config.read(path)), config.to_flat(run)
    except UsageError:
        return False
    return all(before[name] == now[name] for name in now if name not in NEED_NOT_AGREE)


class TrialProcess:
    """The run of a trial, whose process can be started again after it has ended."""

    def __init__(self, folder: Path, cores: Sequence[int]):
        self.folder = folder
        self._cores = cores
        self._history = History(folder)
        self._process: Any = None
        self._stop_seconds = math.inf  # when it is killed, by time.monotonic()
        self._is_stopping = False

    def start(self) -> None:
        """Start or resume the run; it ends with this process, and Ctrl-C on the terminal does not reach it."""
        line = (sys.executable, "-m", "mxtrain.fit", "--config", str(self.folder / "config.yaml"))
        environment = {**os.environ, SUPERVISOR_PID: str(os.getpid())}
        path = self.folder / "logs" / "output.log"
        with durable.writing(path), path.open("ab") as output, Path(os.devnull).open("rb") as nothing:
            self._output_start = output.tell()
            with _on_cores(self._cores):
                self._process = subprocess.Popen(
                    line, env=environment, stdin=nothing, stdout=output, stderr=output, start_new_session=True
                )

    def poll(self) -> int | None:
        """Return the exit code, None as long as it runs; one that takes too long to stop is killed."""
        code: int | None = self._process.poll()
        if code is None and time.monotonic() > self._stop_seconds:
            self._process.kill()
        return code

    def stop(self, grace_seconds: float) -> None:
        """Ask the run to end after a checkpoint, once; after `grace_seconds` it is killed."""
        if not self._is_stopping:
            self._is_stopping = True
            self._process.send_signal(signal.SIGTERM)
        self._stop_seconds = min(self._stop_seconds, time.monotonic() + grace_seconds)

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations that the run has recorded so far, in their order."""
        self._history.read_on()
        return self._history.of_kind("eval")

    def last_step(self) -> int:
        """Return the last step that the run has recorded; 0 where it has none."""
        self._history.read_on()
        steps = self._history.column("step")
        return int(steps[-1]) if len(steps) else 0

    def seconds(self) -> float:
        """Return the time that the run has spent in steps and evaluations."""
        steps = float(sum(each for each in self._history.column("seconds") if math.isfinite(each)))
        return steps + sum(each.get("seconds") or 0.0 for each in self._history.of_kind("eval"))

    def message(self) -> str:
        """Return the last line that the process has printed, without the command's name."""
        with contextlib.suppress(OSError), (self.folder / "logs" / "output.log").open("rb") as output:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(self._output_start, size - TAIL_BYTES))
            lines = output.read().decode(errors="replace").strip().splitlines()
            if lines:
                return lines[-1].replace("mxtrain.fit: ", "", 1)
        return ""


def share(place: int, at_once: int) -> list[int]:
    """Return the cores of the trial in this place, of so many at once; they are shared where there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    size = max(1, len(cores) // at_once)
    start = place * size % (len(cores) // size * size)
    return cores[start : start + size]


@contextlib.contextmanager
def _on_cores(cores: Sequence[int]) -> Iterator[None]:
    """A block in which this thread, and so what it starts, runs on these cores: a run counts them for its loader."""
    before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)
