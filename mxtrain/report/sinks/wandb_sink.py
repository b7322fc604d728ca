"""Weights & Biases, as the training process sees it: a process of its own reads metrics.jsonl and sends what is in it.

So whatever W&B does, hang, fork, take signals or break, happens elsewhere, and its 2 seconds of imports and half a
millisecond a record too. Owns that process's start and end; what it sends is `wandb_process.py`'s.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import mxtrain
from mxtrain.core.errors import Stop
from mxtrain.report.sinks.record import Record
from mxtrain.report.sinks.sink import Logged

logger = logging.getLogger(__name__)

END_SECONDS = 60.0  # for the last records, and to upload them
GRACE_SECONDS = 5.0  # after those, for the process to end itself


def open_sink(run: Logged) -> WandB:
    """Start the process that logs a run."""
    return WandB(run.out)


class WandB:
    """Starts the process; it goes on by itself. It ends when it is told to, and when this process has gone."""

    def __init__(self, out: Path, end_seconds: float = END_SECONDS):
        self._out, self._end_seconds = out, end_seconds
        log = out / "logs" / "wandb.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # Absolute, as it runs elsewhere: where `import mxtrain` works, and no folder `wandb` of a user's is in the way.
        words = [str(out.resolve()), str((out / "metrics.jsonl").stat().st_size), str(end_seconds)]
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mxtrain.report.sinks.wandb_process", *words],
                cwd=Path(mxtrain.__file__).resolve().parents[1],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is the run's
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._partial_line, self._has_failed = b"", False

    def write(self, record: Record) -> None:
        """Pass on what the process has to say; the record it finds in metrics.jsonl."""
        self._listen()
        if self._process.poll() is not None:
            self._has_failed = True
            raise Stop(self._failure())

    def close(self) -> None:
        """Have the process send the rest, and wait for it, but not for ever."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(b"end\n")
            self._process.stdin.close()
        try:
            self._process.wait(self._end_seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            logger.warning("--log wandb: does not end after %g s, killed", self._end_seconds)
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._listen()
        if self._process.returncode > 0 and not self._has_failed:
            logger.warning("--log wandb: %s", self._failure())
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _failure(self) -> str:
        return f"its process has ended, see {self._out / 'logs' / 'wandb.log'}"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self._partial_line += os.read(self._process.stdout.fileno(), 1 << 12)
        *lines, self._partial_line = self._partial_line.split(b"\n")
        for line in lines:
            logger.warning("--log wandb: %s", line.decode(errors="replace"))
