"""What a run leaves on disk beside its checkpoints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOGS_A_LINE = """
import logging, sys
from pathlib import Path
from mxtrain import run_folder
run_folder.start_log("warning", Path(sys.argv[1]))
logging.getLogger("mxtrain.fit").info(*eval(sys.argv[2]))
"""


def stderr_of(log: Path, *line: object) -> str:
    """In a process of its own, whose end closes the log."""
    command = [sys.executable, "-c", LOGS_A_LINE, str(log), repr(line)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


def test_a_log_on_a_full_disk_prints_no_tracebacks(tmp_path: Path) -> None:
    log = tmp_path / "fit.log"
    log.symlink_to("/dev/full")
    assert stderr_of(log, "one") == ""


def test_other_mistakes_in_logging_are_told(tmp_path: Path) -> None:
    assert "TypeError" in stderr_of(tmp_path / "fit.log", "%d", "one")
