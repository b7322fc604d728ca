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

from mxtrain.report.sinks.json_lines import JsonLines
from mxtrain.tables import row_files, row_format
from tests.support.commands import ROOT
from tests.support.processes import warm_start
from tests.support.processes.warm_start import WarmFunction, WarmProcess

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
        if record["kind"] == "train" and record["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    JsonLines.write = write_and_die  # type: ignore[method-assign]
    warm_start.be_command("mxtrain.fit", flags, ROOT)


def wait_until(happened: Callable[[], Any], run: subprocess.Popen[str] | WarmProcess) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not is_now(happened):
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < end, f"not within {DEADLINE_SECONDS} s"


def is_now(happened: Callable[[], Any]) -> bool:
    """Return whether it has happened; if not, after a pause that is nine times as long as the look: others compute."""
    asked = time.monotonic()
    if happened():
        return True
    time.sleep(min(max(0.001, 9 * (time.monotonic() - asked)), 0.1))
    return False


def text(out: Path) -> str:
    path = out / "metrics.jsonl"
    return path.read_text() if path.exists() else ""


def has_step(out: Path, step: int) -> bool:
    return f'"step": {step},' in text(out)


def is_writing(out: Path) -> bool:
    return any((out / "checkpoints").glob(".writing-*"))


def records(out: Path, *kinds: str) -> list[dict[str, Any]]:
    """The records of these kinds; of steps and evaluations where none is given."""
    found = [json.loads(line) for line in text(out).splitlines()]
    return [each for each in found if each["kind"] in (kinds or ("train", "eval"))]


def seconds_of(record: dict[str, Any]) -> float:
    """The wall time that a record accounts for (docs/records.md)."""
    names = [name for name in ("seconds", "initialise_seconds", "other_seconds") if name in record]
    assert all(record[name] >= 0 for name in record if name.endswith("seconds"))
    return float(sum(record[name] for name in names))


def curve(out: Path) -> list[dict[str, Any]]:
    """The records that are promised the same wherever the run is, without what a clock says."""

    def is_timed(name: str) -> bool:
        return name in ("time", "seconds") or name.endswith(("_seconds", "_per_second"))

    promised = records(out, "train", "eval", "layers", "classes", "worst")
    return [{name: each[name] for name in each if not is_timed(name)} for each in promised]


def newest(out: Path) -> Path:
    return sorted((out / "checkpoints").glob("step-*"))[-1]


def assert_same_end(out: Path, expected: Path) -> None:
    """Equal records, equal arrays to the bit, and the equal state of everything else but whose job it was."""
    curves = curve(out), curve(expected)
    assert list(map(len, curves)) == [len(curves[1])] * 2
    for found, right in zip(*curves):
        assert found == right, (found, right)
    assert_same_checkpoint(out, expected)


def assert_same_checkpoint(out: Path, expected: Path) -> None:
    """The newest ones are equal, but for whose job it was."""
    for path in newest(expected).glob("*.params"):
        assert (newest(out) / path.name).read_bytes() == path.read_bytes(), path.name
    states = [json.loads((newest(each) / "state.json").read_text()) for each in (out, expected)]
    for state in states:
        del state["config"], state["job"]
    assert states[0] == states[1]


def scores_of(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The scores of an evaluation, from its record or from what `mxtrain.evaluate --json` has printed."""
    return {
        name: value for name, value in evaluation.items() if name.startswith("val_") or name == "num_samples"
    }


def rows_of(out: Path, table: str = "rows") -> dict[int, bytes]:
    """The records of a table in a run's newest checkpoint, by id."""
    found: dict[int, bytes] = {}
    for share in row_files.shares_of(newest(out), table):
        for row_file in reversed(share):
            for piece in row_format.read(row_file):
                found.update((int(each["id"]), each.tobytes()) for each in piece)
    return found
