"""The packer as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 60
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        **options,
    )


def im2rec_wrapper(*arguments, **options):
    return run("-m", "tools.im2rec_wrapper", *arguments, **options)


def assert_one_line(done, exit_code, *words):
    assert done.returncode == exit_code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert str(word) in done.stderr
