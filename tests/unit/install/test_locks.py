"""The lock files: whole, with hashes, without places, and what pyproject.toml asks for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mxtrain.core.system import distributions, wheels
from tests.support.checkout import ROOT

LOCKS = sorted((ROOT / "locks").iterdir())
LINE = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def locked(path: Path) -> dict[str, str]:
    matches = [LINE.fullmatch(line) for line in path.read_text().splitlines()[1:]]
    assert all(matches), f"{path.name}: a line is not NAME==VERSION and a hash, so it may name a place"
    return {match[1]: match[2] for match in matches if match}


def declared(extras: str, python: str) -> list[Requirement]:
    """What pyproject.toml asks for with these extras on a Python."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for extra in extras.split(","):
        lines += project["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    return [each for each in found if not each.marker or each.marker.evaluate({"python_version": python})]


def test_the_oldest_and_the_newest_python_have_a_lock_for_each_purpose() -> None:
    range_ = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert range_
    expected = {
        f"python3.{minor}-{purpose}.txt"
        for minor in (int(range_[1]), int(range_[2]) - 1)
        for purpose in ("dev", "cpu", "cu112")
    }
    assert {path.name for path in LOCKS} >= expected


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_has_what_is_declared(path: Path) -> None:
    """A changed dependency makes this fail until `make lock` has run."""
    python, purpose = path.stem[len("python") :].split("-")
    versions = locked(path)
    engine = "cu112" if purpose == "cu112" else "cpu"
    for line in (*wheels.ENGINES[engine], wheels.GLUONCV, wheels.NUMPY, "pip", "setuptools>=70.1"):
        requirement = Requirement(line)
        assert requirement.specifier.contains(versions[requirement.name]), line
    for requirement in declared("cpu,dev" if purpose == "dev" else purpose, python):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        name = "opencv-python-headless" if name == "opencv-python" else name  # which loads everywhere
        assert requirement.specifier.contains(versions[name]), f"{requirement}: make lock"


def test_environment_json_can_name_all_that_is_installed() -> None:
    """As pip does, and in no time: a run's start waits for it."""
    line = [sys.executable, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    listed = json.loads(subprocess.run(line, capture_output=True, check=True, timeout=60).stdout)
    expected = {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in listed}
    found = distributions.installed()
    assert expected and {name: found.get(name) for name in expected} == expected


def test_the_lock_that_made_an_environment_is_named_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert distributions.lock() is None
    (tmp_path / distributions.LOCKED_BY).write_bytes(b"abc")
    assert distributions.lock() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
