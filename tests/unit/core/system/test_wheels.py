"""Conflicts among wheels, from real metadata."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.processes.fresh_process import ROOT, ask, write

GOOD = {"mxnet": "1.9.1", "gluoncv": "0.10.5.post0", "numpy": "1.26.4", "opencv-python": "4.10.0.84"}
CONFLICTS = {
    "both mxnets": (
        {"mxnet-cu112": "1.9.1"},
        "mxnet and mxnet-cu112",
        "--install cpu (or cu112) removes both",
    ),
    "no mxnet": ({"mxnet": ""}, "no mxnet", "python -m mxtrain.doctor --install cpu"),
    "no gluoncv": ({"gluoncv": ""}, "gluoncv", "python -m mxtrain.doctor --install cpu"),
    "old NumPy": ({"numpy": "1.22.4"}, "numpy 1.22.4 is too old", "pip install 'numpy>=1.23.5'"),
    "slow OpenCV": (
        {"opencv-python": "4.9.0.80"},
        "4.9.0.80 decodes",
        "pip install --upgrade 'opencv-python>=4.10'",
    ),
    "no OpenCV": ({"opencv-python": ""}, "opencv-python is not", "pip install 'opencv-python>=4.10'"),
    "two OpenCVs": (
        {"opencv-python-headless": "4.11.0.86"},
        "opencv-python and opencv-python-headless overwrite",
        "pip uninstall -y opencv-python opencv-python-headless && pip install",
    ),
    "cuDNN 9": (
        {"mxnet": "", "mxnet-cu112": "1.9.1", "nvidia-cudnn-cu11": "9.10.2.21"},
        "nvidia-cudnn-cu11 9.10.2.21 is too new",
        "pip install nvidia-cudnn-cu11==8.9.6.50",
    ),
}


def installed(folder: Path, wheels: dict[str, str]) -> list[str]:
    """The conflicts that a process sees when just these wheels are installed for it."""
    for name, version in wheels.items():
        if version:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            write(folder, {f"{name.replace('-', '_')}-{version}.dist-info/METADATA": metadata})
    found = ask("wheels.conflicts()", "-S", PYTHONPATH=f"{folder}{os.pathsep}{ROOT}")
    assert isinstance(found, list)
    return found


def test_a_good_set_has_no_conflicts(tmp_path: Path) -> None:
    assert installed(tmp_path, GOOD) == []


def test_newer_numpy_and_opencv_are_no_conflict(tmp_path: Path) -> None:
    assert installed(tmp_path, {**GOOD, "numpy": "2.5.5", "opencv-python": "5.0.0.93"}) == []


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflict_names_the_culprit_and_the_cure(case: str, tmp_path: Path) -> None:
    change, culprit, cure = CONFLICTS[case]
    (sentence,) = installed(tmp_path, {**GOOD, **change})
    assert culprit in sentence
    assert cure in sentence


def test_packages_of_debian_count_too(tmp_path: Path) -> None:
    """Their folders, or files, name the Python behind the version."""
    write(tmp_path, {"numpy-1.22.4-py3.11.egg-info": "Name: numpy\n"})
    (sentence,) = installed(tmp_path, {**GOOD, "numpy": ""})
    assert "numpy 1.22.4 is too old" in sentence
