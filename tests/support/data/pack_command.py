"""The packer as a user calls it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys

from tests.support.commands import ROOT
from tests.support.processes import warm_start
from tools.im2rec_wrapper.__main__ import main

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


def in_this_process(*arguments):
    """Call what `python -m tools.im2rec_wrapper` calls, without a process around it."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main(list(map(str, arguments)))
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


def assert_one_line(done, exit_code, *words):
    assert done.returncode == exit_code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert str(word) in done.stderr
