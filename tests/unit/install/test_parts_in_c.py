"""setup.py's parts in C: an editable build takes what `build_ext --inplace` has built, and compiles nothing again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

EDITABLE = "from setuptools import build_meta; build_meta.build_editable('.')"


def run(folder: Path, *words: str, **environment: str) -> str:
    line = [sys.executable, *words]
    done = subprocess.run(
        line, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose parts in C are a line each, built in their places."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    for name in ("pyproject.toml", "setup.py", "README.md", "mxtrain/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "mxtrain" / "native" / "operators").mkdir(parents=True)
    (tmp_path / "mxtrain" / "native" / "module.c").write_text("int PyInit__built;\n")
    (tmp_path / "mxtrain" / "native" / "operators" / "functions.c").write_text("int PyInit__operators;\n")
    run(tmp_path, "setup.py", "build_ext", "--inplace")
    return tmp_path


def built(checkout: Path) -> dict[str, bytes]:
    return {path.name.split(".")[0]: path.read_bytes() for path in checkout.glob("mxtrain/native/*.so")}


def test_what_is_built_is_taken(checkout: Path) -> None:
    before = built(checkout)
    assert before.keys() == {"_built", "_operators"}
    assert "failed" not in run(checkout, "-c", EDITABLE, CC="false")
    assert built(checkout) == before and list(checkout.glob("mxtrain-*.whl"))


def test_what_is_older_than_its_sources_is_built_anew(checkout: Path) -> None:
    before = built(checkout)
    (checkout / "mxtrain" / "native" / "module.c").write_text("int PyInit__built, another;\n")
    run(checkout, "-c", EDITABLE)
    assert built(checkout)["_built"] != before["_built"]
    assert built(checkout)["_operators"] == before["_operators"]
