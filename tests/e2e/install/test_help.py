"""--help answers at once: no command loads mxnet to say what it does."""

from __future__ import annotations

import functools
import resource
import subprocess
import sys

import pytest

COMMANDS = [
    "mxtrain.fit",
    "mxtrain.evaluate",
    "mxtrain.predict",
    "mxtrain.export",
    "mxtrain.convert",
    "mxtrain.doctor",
    "mxtrain.report",
    "mxtrain.tune",
    "tools.im2rec_wrapper",
    "mxtrain",
]


def seconds(arguments: list[str]) -> float:
    """Return the CPU time it takes: it waits for nothing, and the time on a clock is also that of its neighbours."""

    def used() -> float:
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of_children.ru_utime + of_children.ru_stime

    before = used()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
    return used() - before


@functools.lru_cache(maxsize=None)
def seconds_of_python() -> float:
    return min(seconds(["-c", "pass"]) for _ in range(4))


@pytest.mark.alone
@pytest.mark.parametrize("line", [*COMMANDS, "mxtrain.fit --help all"])
def test_help_is_fast(line: str) -> None:
    command, *words = line.split()
    asked = ["-m", command, *(words or ["--help"])]
    # One of several: a neighbour on the machine can only make one slower.
    assert any(seconds(asked) - seconds_of_python() < 0.3 for _ in range(4))


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
