"""`doctor --install`, with a pip that only notes what it is asked for; benchmarks/pythons.py has the real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.core.system import libraries, wheels
from mxtrain.doctor.machine import install, mxnet_check

ROOT = Path(__file__).resolve().parents[4]
GOOD = {"mxnet": "1.9.1", "gluoncv": "0.10.5.post0", "numpy": "2.5.5", "opencv-python": "5.0.0.93"}
TRAINS = {"error": None}


class Pip:
    """What an environment has, and the commands that pip got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, present: dict[str, str], opencv_errors: list[str]):
        self.present, self.commands, self.said = present, [], []  # type: tuple[dict[str, str], list[str], list[str]]
        self.opencv_errors = opencv_errors
        monkeypatch.setattr(install, "_pip", self.run)
        monkeypatch.setattr(install, "_opencv_error", lambda: self.opencv_errors.pop(0))
        monkeypatch.setattr(wheels, "installed", lambda: dict(self.present))
        monkeypatch.setattr(libraries, "missing", lambda: [])
        monkeypatch.setattr(mxnet_check, "check", lambda: TRAINS)

    def run(self, *words: str) -> None:
        self.commands.append(" ".join(words))
        for word in words[1:]:
            name, _, version = word.partition("==")
            if words[0] == "uninstall":
                self.present.pop(name, None)
            elif version:
                self.present[name] = version
        if words[0] == "install" and "opencv-python>=4.10" in words:
            self.present["opencv-python"] = "5.0.0.93"
        self.present.setdefault("numpy", "2.5.5")


def test_an_empty_environment_gets_the_engine_without_its_stale_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch, {}, [""])
    assert install.install("cpu", pip.said.append).startswith(
        "a step of training works: mxnet 1.9.1, NumPy 2.5.5"
    )
    assert pip.commands == [
        "install --no-deps mxnet==1.9.1 gluoncv==0.10.5.post0",
        "install requests>=2.20 graphviz>=0.8.1 scipy Pillow portalocker tqdm numpy>=1.23.5 opencv-python>=4.10",
    ]
    assert pip.said == []


def test_a_numpy_and_an_opencv_that_will_do_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch, {"numpy": "1.26.4", "opencv-python-headless": "4.11.0.86"}, [""])
    install.install("cpu", pip.said.append)
    assert pip.commands[1].endswith(" numpy==1.26.4 opencv-python-headless") and len(pip.commands) == 2
    assert "numpy>=1.23.5" in install.requirements({"numpy": "1.22.4"})


def test_the_other_engine_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch, dict(GOOD), [""])
    install.install("cu112", pip.said.append)
    assert pip.commands[0] == "uninstall --yes mxnet"
    assert pip.commands[1].startswith(
        "install --no-deps mxnet-cu112==1.9.1 nvidia-cuda-runtime-cu11==11.8.89 "
    )
    assert pip.said == ["removing mxnet: only one engine can be installed"]


def test_an_opencv_that_needs_a_desktop_gives_way_to_the_same_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pip = Pip(monkeypatch, dict(GOOD), ["ImportError: libGL.so.1: cannot open", ""])
    install.install("cpu", pip.said.append)
    assert pip.commands[-2:] == [
        "uninstall --yes opencv-python",
        "install --no-deps opencv-python-headless==5.0.0.93",
    ]
    (said,) = pip.said
    assert "libGL.so.1" in said and said.endswith("opencv-python-headless==5.0.0.93 takes its place")
    pip = Pip(monkeypatch, dict(GOOD), ["ImportError: libz.so.1: cannot open"] * 2)
    with pytest.raises(UsageError, match=r"opencv-python-headless==5.0.0.93 does not load either: .*libz"):
        install.install("cpu", pip.said.append)


def test_a_library_that_a_wheel_can_lend_comes_with_that_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch, dict(GOOD), [""])
    lacking = [{"library": libraries.GOMP, "package": "libgomp1", "needed_by": "mxnet"}]
    monkeypatch.setattr(libraries, "missing", lambda: lacking)
    install.install("cpu", pip.said.append)
    assert pip.commands[-1] == "install scikit-learn" and "libgomp.so.1 is missing" in pip.said[0]


def test_what_does_not_train_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch, dict(GOOD), [""])
    monkeypatch.setattr(mxnet_check, "check", lambda: {"error": "half installed"})
    with pytest.raises(UsageError, match="a step of training fails: half installed"):
        install.install("cpu", pip.said.append)


PIPS = {
    "no such version": (
        "import sys; sys.exit('ERROR: Could not find a version\\nERROR: No matching distribution for mxnet')",
        "mxtrain.doctor: pip install --no-deps mxnet==1.9.1 gluoncv==0.10.5.post0: No matching distribution for mxnet",
    ),
    "no network": (
        "import sys; sys.exit('WARNING: Retrying (Retry(total=4\\nERROR: No matching distribution for mxnet')",
        "no package index was reached (No matching distribution for mxnet)",
    ),
    "no pip": ("import sys; sys.exit('x: No module named pip')", " -m ensurepip"),
}


@pytest.mark.parametrize("case", PIPS)
def test_a_pip_that_fails_is_one_line(case: str, tmp_path: Path) -> None:
    source, said = PIPS[case]
    (tmp_path / "pip.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    line = [sys.executable, "-m", "mxtrain.doctor", "--install", "cpu"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_pyproject_has_the_same_pins() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert wheels.GLUONCV in text and wheels.NUMPY in text and wheels.OPENCV in text
    for engine, pins in wheels.ENGINES.items():
        extra: Any = re.search(rf"^{engine} = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
        found = {each.partition(";")[0].strip() for each in re.findall(r'"([^"]*)"', extra[1])}
        assert found - {"opencv-python<4.12"} == set(pins)
