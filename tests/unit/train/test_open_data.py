"""Opening a data set of the user's own loads mxnet only if its module does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OPEN = f"""
import os, sys; sys.path.insert(0, {str(ROOT)!r})
from mxtrain import config
from mxtrain.train.open_data import open_source
run = config.parse(["--train", "own:made", "--threads", "3"])
print(len(open_source("--train", "own:made", run)), "mxnet" in sys.modules, os.environ.get("MXNET_OMP_MAX_THREADS"))
"""


@pytest.mark.parametrize(("first_line", "loaded"), [("", "False None"), ("import mxnet", "True 3")])
def test_mxnet_comes_with_the_module_of_the_data_set(first_line: str, loaded: str, tmp_path: Path) -> None:
    source = "import numpy as np\ndef made(): return [(np.zeros((4, 4, 3), np.uint8), 0)] * 5\n"
    (tmp_path / "own.py").write_text(f"{first_line}\n{source}")
    done = subprocess.run(
        [sys.executable, "-c", OPEN], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert (done.stdout, done.returncode) == (f"5 {loaded}\n", 0), done.stderr
