"""Commands as a user types them, and small packed data sets to give to them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Callable

import cv2
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def command() -> Command:
    def run(module: str, *arguments: object, timeout: float = 100) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", module, *map(str, arguments)]
        return subprocess.run(line, capture_output=True, text=True, timeout=timeout, cwd=ROOT)

    return run


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A folder with train.rec and val.rec: bright pictures against dark ones, learnt in a few steps."""
    folder = tmp_path_factory.mktemp("shapes")
    rng = np.random.default_rng(0)
    for name, level in (("bright", 200), ("dark", 40)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(40):
            picture = np.clip(rng.normal(level, 20, (24, 24, 3)), 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), picture)
    done = command("tools.im2rec_wrapper", "pack", folder / "images", folder, "--split", 0.8)
    assert done.returncode == 0, done.stderr
    return folder
