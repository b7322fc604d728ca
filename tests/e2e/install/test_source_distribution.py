"""A source distribution: it holds the checkout, and builds, demos and tests by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, tracked
from tests.support.processes import installed

OF_THE_BUILD = {"PKG-INFO", "setup.cfg"}
MAKE_SECONDS = 900


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    return installed.source_distribution(installed.source(folder / "source"), folder)


def test_it_holds_every_file_of_the_checkout_and_no_other(archive: Path) -> None:
    with tarfile.open(archive) as files:
        names = {member.name.partition("/")[2] for member in files if member.isfile()}
    names = {name for name in names if not name.startswith("mxtrain.egg-info/")} - OF_THE_BUILD
    expected = {str(path.relative_to(ROOT)) for path in tracked()}
    assert (
        expected
        and names == {name for name in expected if not name.startswith("mxtrain.egg-info/")} - OF_THE_BUILD
    )


# In small: the files, above; CI's make demo and make test are those of the same files.
@pytest.mark.slow
@pytest.mark.timeout(MAKE_SECONDS + 300)
def test_it_builds_demos_and_tests_by_itself(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as files:
        files.extractall(tmp_path)
    checkout = next(tmp_path.glob("mxtrain-*"))
    neutral = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VENV")}

    def run(*line: str) -> str:
        done = subprocess.run(
            line,
            cwd=checkout,
            env=neutral,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MAKE_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "done: val accuracy 0.9" in run("make", "demo", f"PYTHON={sys.executable}")
    run(
        ".venv/bin/python",
        "-m",
        "pytest",
        "tests/unit/test_references.py",
        "tests/unit/install",
        "tests/unit/pack",
    )
    assert (checkout / "runs" / "demo" / "run" / "metrics.jsonl").exists()
