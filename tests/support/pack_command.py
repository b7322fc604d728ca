"""The packer as a user calls it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support import warm_start
from tests.support.commands import ROOT

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


def im2rec_wrapper(*arguments, cwd=ROOT):
    """Run `python -m tools.im2rec_wrapper`, in a process that has its libraries already."""
    return warm_start.run("tools.im2rec_wrapper", list(map(str, arguments)), cwd, TIMEOUT_SECONDS)


def assert_one_line(done, exit_code, *words):
    assert done.returncode == exit_code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert str(word) in done.stderr
