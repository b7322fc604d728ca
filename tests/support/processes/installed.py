"""mxtrain as users install it: a wheel, or editable, in an environment that shares the packages of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.checkout import OF_BUILDS, ROOT

TIMEOUT_SECONDS = 100


def source(folder: Path) -> Path:
    """Return a copy of the checkout, in which a build leaves its traces."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*OF_BUILDS), symlinks=True)
    return folder


def wheel(source: Path, folder: Path) -> Path:
    """Build a wheel, without the part in C, whose compiler would take longest, and without a network."""
    pip(sys.executable, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, source)
    return next(folder.glob("*.whl"))


def source_distribution(source: Path, folder: Path) -> Path:
    """Build a source distribution."""
    code = f"import setuptools.build_meta; setuptools.build_meta.build_sdist({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return next(folder.glob("*.tar.gz"))


def environment(folder: Path, *what: object) -> Path:
    """Return the programs of a new environment in which `what`, as pip takes it, is installed."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    # The packages of this environment come behind; mxtrain itself is only found through a file that is not read there.
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "bin" / "python"
    pip(
        sys.executable,
        "--python",
        python,
        "install",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        *what,
    )
    return folder / "bin"


def pip(python: object, *arguments: object) -> None:
    line = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    environment = {**os.environ, "CC": "false", "PYTHONWARNINGS": "ignore:Editable installation"}
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=ROOT.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr, done.stderr


def run(*line: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder`, where nothing of the checkout can be imported."""
    neutral = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in line],
        cwd=folder,
        env=neutral,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
