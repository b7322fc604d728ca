"""Commands in processes and sessions of their own, with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 900
SETTINGS = ("OMP_", "MXNET_", "OPENBLAS_", "TF_")  # of threads and kernels, in this shell


class Ended(NamedTuple):
    """The end of a command, and what it and its own children took."""

    exit_code: int
    output: str
    errors: str
    cpu_seconds: float
    megabytes: float  # the most that one process held at once, its resident set

    @property
    def last_error(self) -> str:
        return (self.errors.strip() or self.output.strip() or f"exit code {self.exit_code}").splitlines()[-1]

    @property
    def answer(self) -> Any:
        """The last line of the output, which is JSON."""
        return json.loads(self.output.splitlines()[-1])


class Failed(Exception):
    """A command that failed or was late, in its last words."""


def attempt(
    *line: object,
    deadline_seconds: float = DEADLINE_SECONDS,
    is_neutral: bool = False,
    folder: Path = ROOT,
    **environment: str,
) -> Ended:
    """Run a command, however it ends; what it leaves behind is killed.

    It is run in the checkout, or in a folder from which that is not importable. A neutral one has none of the SETTINGS
    of this shell. One that is late ends with a signal's exit code.
    """
    left_out = (*(SETTINGS if is_neutral else ()), "PYTHONPATH")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    # PYTHONPATH is for scripts, and for other environments than ours.
    importable = {"PYTHONPATH": str(ROOT)} if folder == ROOT else {}
    environment = {**inherited, **importable, **environment}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(word) for word in line],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        late = threading.Timer(deadline_seconds, _kill_session, [process.pid])
        late.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            is_late = not late.is_alive()
        finally:
            late.cancel()
            _kill_session(process.pid)
        output.seek(0), errors.seek(0)
        said = f"not done in {deadline_seconds} s" if is_late else errors.read()
        cpu_seconds = usage.ru_utime + usage.ru_stime
        return Ended(process.returncode, output.read(), said, cpu_seconds, usage.ru_maxrss / 1024)


def require(*line: object, **options: Any) -> Ended:
    """Run a command as `attempt` does; Failed where it fails."""
    ended = attempt(*line, **options)
    if ended.exit_code:
        raise Failed(ended.last_error)
    return ended


def run(*line: object, **options: Any) -> Ended:
    """Run a command as `attempt` does; one that fails ends the benchmark with the reason it gave."""
    ended = attempt(*line, **options)
    if ended.exit_code:
        raise SystemExit(f"{' '.join(map(str, line))}: exit code {ended.exit_code}\n{ended.errors.strip()}")
    return ended


def _kill_session(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
