"""A test process that dies is reported with its test and its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("death", "ending"),
    [
        ("os._exit(9)", "it ended with exit code 9"),
        pytest.param("os.kill(os.getpid(), 11)", "it ended by signal 11", marks=pytest.mark.slow),
    ],
)
def test_a_dead_test_process_is_reported_with_its_tests(tmp_path: Path, death: str, ending: str) -> None:
    (tmp_path / "test_it.py").write_text(
        f"import os\ndef test_before(): pass\ndef test_deadly(): {death}\ndef test_after(): pass\n"
    )
    options = [
        "-p",
        "tests.support.processes.crashes",
        "-p",
        "no:cacheprovider",
        "-n",
        "1",
        "--max-worker-restart=0",
    ]
    line = [sys.executable, "-m", "pytest", "-q", *options, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=ROOT)
    said = f"{ending}; tests that it had run before, the last one last: test_it.py::test_before"
    assert done.returncode == 1 and done.stdout.count(said) == 2, done.stdout
    assert "crashed while running 'test_it.py::test_deadly'" in done.stdout
    is_struck = "kill" in death  # and has not ended by itself
    assert ("in test_deadly" in done.stdout) == is_struck, "where it was"
