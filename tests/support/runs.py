"""A run as a process that can be watched and killed, and what it leaves."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

from mxtrain.report.writers import JsonLines
from tests.support import warm_start
from tests.support.commands import ROOT
from tests.support.warm_start import WarmFunction, WarmProcess

DEADLINE_SECONDS = 60


@contextlib.contextmanager
def started(*flags: object) -> Iterator[subprocess.Popen[str]]:
    """`python -m mxtrain.fit` under way, started as a user's; it does not outlive the block."""
    line = [sys.executable, "-m", "mxtrain.fit", *map(str, flags)]
    with subprocess.Popen(
        line, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as run:
        try:
            yield run
        finally:
            run.kill()


def warm_started(*flags: object) -> WarmProcess:
    """`python -m mxtrain.fit` under way in a process that has mxnet already; as a block, which it does not outlive."""
    words = list(map(str, flags))
    assert warm_start.is_possible("mxtrain.fit", words), words
    return WarmProcess("mxtrain.fit", words, ROOT)


def kill_at(step: int, log: Path, *flags: object) -> None:
    """Run `fit` until SIGKILL ends it, with its record of this step: at the same place, however busy the machine."""
    run = WarmFunction(functools.partial(_fit_until, step, [*map(str, flags)]), log)
    assert run.wait(DEADLINE_SECONDS) == -signal.SIGKILL, log.read_text()


def _fit_until(step: int, flags: list[str]) -> None:
    write = JsonLines.write

    def write_and_die(self: JsonLines, record: Any) -> None:
        write(self, record)
        if record["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    JsonLines.write = write_and_die  # type: ignore[method-assign]
    warm_start.be_command("mxtrain.fit", flags, ROOT)


def wait_until(happened: Callable[[], Any], run: subprocess.Popen[str] | WarmProcess) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < end, f"not within {DEADLINE_SECONDS} s"
        time.sleep(0.001)


def text(out: Path) -> str:
    path = out / "metrics.jsonl"
    return path.read_text() if path.exists() else ""


def has_step(out: Path, step: int) -> bool:
    return f'"step": {step},' in text(out)


def is_writing(out: Path) -> bool:
    return any((out / "checkpoints").glob(".writing-*"))


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text(out).splitlines()]


def curve(out: Path) -> list[dict[str, Any]]:
    """The records without what a clock says."""

    def is_timed(name: str) -> bool:
        return name == "seconds" or name.endswith("_per_second")

    return [{name: each[name] for name in each if not is_timed(name)} for each in records(out)]


def newest(out: Path) -> Path:
    return sorted((out / "checkpoints").glob("step-*"))[-1]


def assert_same_end(out: Path, expected: Path) -> None:
    """Equal records, equal arrays to the bit, and the equal state of everything else but whose job it was."""
    curves = curve(out), curve(expected)
    assert list(map(len, curves)) == [len(curves[1])] * 2
    for found, right in zip(*curves):
        assert found == right, (found, right)
    for path in newest(expected).glob("*.params"):
        assert (newest(out) / path.name).read_bytes() == path.read_bytes(), path.name
    states = [json.loads((newest(each) / "state.json").read_text()) for each in (out, expected)]
    for state in states:
        del state["config"], state["job"]
    assert states[0] == states[1]
