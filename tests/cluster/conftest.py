"""Data for clusters: digits that take more than a few steps to learn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import ROOT, Command


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A folder with train.rec and val.rec."""
    folder = tmp_path_factory.mktemp("digits")
    line = [sys.executable, "examples/digits.py", str(folder / "images")]
    subprocess.run(line, cwd=ROOT, check=True, timeout=60, capture_output=True)
    done = command("tools.im2rec_wrapper", "pack", folder / "images", folder, "--split", 0.9)
    assert done.returncode == 0, done.stderr
    return folder
