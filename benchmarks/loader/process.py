"""Running a command with a deadline, without processes left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 300


class Ended(NamedTuple):
    exit_code: int
    output: str
    last_error: str


def run(line: Sequence[object]) -> Ended:
    """Run a command in the checkout, in its own session, without this shell's thread settings."""
    neutral = {
        key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "MXNET_", "TF_"))
    }
    process = subprocess.Popen(
        [str(part) for part in line],
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
    return Ended(process.returncode, output, (errors.strip().splitlines() or ["no reason given"])[-1])
