"""--help answers at once: no command loads mxnet to say what it does."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

COMMANDS = [
    "mxtrain.fit",
    "mxtrain.evaluate",
    "mxtrain.predict",
    "mxtrain.doctor",
    "tools.im2rec_wrapper",
    "mxtrain",
]


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
    return time.perf_counter() - started


@pytest.mark.alone
@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_fast(command: str) -> None:
    # The best of several: a neighbour on the machine can only make one slower.
    bare, helped = (
        min(seconds(line) for _ in range(4)) for line in (["-c", "pass"], ["-m", command, "--help"])
    )
    assert helped - bare < 0.3


@pytest.mark.parametrize("command", COMMANDS)
def test_help_does_not_load_mxnet(command: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['x', '--help']\n"
        "try:\n"
        f"    runpy.run_module('{command}', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert end.code in (0, None), end.code\n"
        "assert 'mxnet' not in sys.modules and 'gluoncv' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
