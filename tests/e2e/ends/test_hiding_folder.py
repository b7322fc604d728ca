"""Commands that are started beside a checkout, whose folder Python takes for the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.core.errors import USAGE
from tests.support.commands import ROOT


@pytest.mark.parametrize(
    "line", ["mxtrain --version", "mxtrain.fit --train x", "mxtrain.doctor", "im2rec_wrapper"]
)
def test_a_folder_that_hides_the_package_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "mxtrain").symlink_to(ROOT)
    done = subprocess.run(
        [sys.executable, "-m", *line.split()],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == USAGE
    assert done.stderr.splitlines() == [
        f"mxtrain: the folder {tmp_path / 'mxtrain'} hides the installed package; start this in another folder"
    ]
