"""The run folder: an older run in it, and its log."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from mxtrain import config
from mxtrain.checkpoint import run_folder
from mxtrain.core.errors import UsageError

LOGS_A_LINE = """
import logging, sys
from pathlib import Path
from mxtrain.checkpoint import run_folder
run_folder.start_log("warning", Path(sys.argv[1]))
logging.getLogger("mxtrain.fit").info(*eval(sys.argv[2]))
"""


@pytest.fixture
def log_as_it_was() -> Iterator[None]:
    """A run takes mxtrain's log for itself, for good; later tests want theirs."""
    log = logging.getLogger("mxtrain")
    handlers, propagates, level = log.handlers, log.propagate, log.level
    yield
    log.handlers, log.propagate = handlers, propagates
    log.setLevel(level)


@pytest.mark.usefixtures("log_as_it_was")
@pytest.mark.parametrize("saved", [["step-00000005"], []])
def test_an_older_run_is_set_aside_and_incomplete_checkpoints_are_deleted(
    tmp_path: Path, saved: list[str]
) -> None:
    for name in [*saved, ".writing-step-00000010"]:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    run = config.parse(["--out", str(tmp_path), "--resume", "never"])
    with run_folder.locked(run):
        run_start = run_folder.RunStart(run, None)
        assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == saved, "until it begins"
        assert (tmp_path / "metrics.jsonl").exists() and not run_start.has_happened
        run_start()
        assert run_start.has_happened
        assert list((tmp_path / "checkpoints").glob("*")) == []
    aside = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("previous-*/**/*")}
    kept = {"checkpoints", "checkpoints/step-00000005", "metrics.jsonl", "logs"}
    assert aside == ({f"previous-1/{name}" for name in kept} if saved else set())


def stderr_of(log: Path, *line: object) -> str:
    """In a process of its own, whose end closes the log."""
    command = [sys.executable, "-c", LOGS_A_LINE, str(log), repr(line)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


def test_a_log_on_a_full_disk_prints_no_tracebacks(tmp_path: Path) -> None:
    log = tmp_path / "fit.log"
    log.symlink_to("/dev/full")
    assert stderr_of(log, "one") == ""


def test_other_mistakes_in_logging_are_reported(tmp_path: Path) -> None:
    assert "TypeError" in stderr_of(tmp_path / "fit.log", "%d", "one")


def test_a_log_on_a_full_disk_does_not_hide_the_error_that_names_the_file(log_as_it_was: None) -> None:
    run_folder.start_log("warning", Path("/dev/full"))
    logging.getLogger("mxtrain.fit").info("a line that stays unwritten")
    with pytest.raises(UsageError, match="cannot be written"):
        try:
            raise UsageError("config.yaml: cannot be written")
        finally:
            run_folder._end_log()
