"""OpenCV enters in one place, and one that does not load is one line in every command."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.breadth import slow_cases
from tests.support.processes.fresh_process import ROOT, write

BEFORE = ROOT / "tests" / "golden" / "runs_before"  # runs, their data and their net
LIBRARY = "libGL.so.1: cannot open shared object file: No such file or directory"
COMMANDS = {
    "fit": "mxtrain.fit --train {0}/a.rec --out {0}/run --model small_cnn",
    "evaluate": "mxtrain.evaluate --run {1}/killed/sgd_ema --val {1}/data/val.rec",
    "predict": "mxtrain.predict --run {1}/killed/sgd_ema {0}/images/a/a.jpg",
    "pack": "tools.im2rec_wrapper pack {0}/images {0}/out",
    "check": "tools.im2rec_wrapper check {0}/a.rec",
    "show": "tools.im2rec_wrapper show {0}/a.rec",
}


def said_without_opencv(words: list[str], folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    write(folder / "broken", {"cv2/__init__.py": source})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder / "broken", ROOT, BEFORE)))}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def test_opencv_enters_in_one_place() -> None:
    folders = ("mxtrain", "tools", "examples", "benchmarks")
    importing = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "cv2" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if "cv2" in [alias.name for alias in getattr(node, "names", []) if isinstance(node, ast.Import)]
    }
    # The other loaders that are measured run as they would without mxtrain.
    assert {path for path in importing if not path.startswith("benchmarks/loader/")} == {
        "mxtrain/core/opencv.py"
    }


@pytest.mark.parametrize("name", ["fit", "pack", *slow_cases("evaluate", "predict", "check", "show")])
def test_an_opencv_that_does_not_load_is_one_line(name: str, tmp_path: Path) -> None:
    from tests.support.data.loading import jpegs, write_records

    write_records(tmp_path / "a.rec", jpegs(4))
    write(tmp_path, {"images/a/a.jpg": "a"})
    words = ["-m", *COMMANDS[name].format(tmp_path, BEFORE).split()]
    done = said_without_opencv(words, tmp_path, f"raise ImportError({LIBRARY!r})")
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    said = "OpenCV does not load, libGL.so.1 is missing on this machine: python -m mxtrain.doctor --install"
    assert said in done.stderr.splitlines()[-1] and "or apt-get install libgl1" in done.stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ImportError('DLL\\nload failed')", "OpenCV does not load (DLL load failed): python -m"),
        (
            "raise ModuleNotFoundError('No module', name='cv2')",
            "OpenCV is not installed: pip install 'opencv-python>=",
        ),
    ],
)
def test_other_reasons_are_told(source: str, said: str, tmp_path: Path) -> None:
    code = (
        "from mxtrain.core.errors import one_line\ndef use():\n    import mxtrain.data.decode.decoding\n"
        "raise SystemExit(one_line('x', use))"
    )
    done = said_without_opencv(["-c", code], tmp_path, source)
    assert (
        done.returncode == 2 and done.stderr.startswith(f"x: {said}") and len(done.stderr.splitlines()) == 1
    )
