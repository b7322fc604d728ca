"""A fresh environment on this machine with the last commit installed in it, for `benchmarks.pythons`."""

from __future__ import annotations

import functools
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Callable, NamedTuple

from benchmarks.harness import processes
from benchmarks.harness.processes import ROOT
from benchmarks.pythons.rows import Row

# For a machine on which others have most of the CPU: a part takes 2 to 20 s of it, `make demo` two minutes.
INSTALL_SECONDS, PART_SECONDS, MAKE_SECONDS = 1800, 900, 3600


Python = Callable[..., str]  # runs words in an empty folder, and returns what it printed


class Installed(NamedTuple):
    """A Python that mxtrain is installed for, and the folder of its source as that Python sees it."""

    python: Python
    source: str


def interpreter(version: str) -> str | None:
    """Return the newest Python of a minor version, on PATH or among pyenv's; None if there is none."""
    pyenv, name = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")), f"python{version}"
    among = sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/{name}")), reverse=True)
    for path in [*filter(None, [shutil.which(name)]), *among]:
        # pyenv's shims are on PATH for versions that they then refuse to run.
        if not processes.attempt(path, "-c", "import ensurepip", folder=Path("/")).exit_code:
            return path
    return None


def last_commit(folder: Path) -> None:
    """Write the files of this checkout's last commit into a folder."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder)


def install(row: Row, folder: Path) -> Installed:
    """Install as a row says, in a folder; Failed where it fails."""
    source, environment, work = folder / "source", folder / "environment", folder / "work"
    work.mkdir()
    last_commit(source)
    python = str(interpreter(row.python))
    compiler = {} if row.compiler else {"CC": "false"}
    if row.source == "checkout":
        make = ["make", f"PYTHON={python}", f"VENV={environment}", f"DEMO={folder / 'demo'}", "demo"]
        _run(source, MAKE_SECONDS, *make, **compiler)
    else:
        _install_built(row, python, source, environment, compiler)
    inner = functools.partial(_run, work, PART_SECONDS, str(environment / "bin" / "python"))
    return Installed(inner, str(source))


def _install_built(row: Row, python: str, source: Path, environment: Path, compiler: dict[str, str]) -> None:
    """Install a wheel or sdist as README says: `[cpu]` by pip alone with NumPy 1; else the engine by doctor."""
    folder = source.parent
    inner = str(environment / "bin" / "python")
    run = functools.partial(_run, folder, INSTALL_SECONDS)
    pip = [inner, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(python, "-m", "venv", str(environment))
    run(*pip, "--upgrade", "pip>=23", "setuptools>=64", "wheel")
    build = f"import setuptools.build_meta as b; print(b.build_{row.source}({str(folder)!r}))"
    built = folder / _run(source, INSTALL_SECONDS, inner, "-c", build, **compiler).split()[-1]
    if row.numpy == "2":
        run(*pip, "numpy>=2", str(built), **compiler)
        run(inner, "-m", "mxtrain.doctor", "--install", "cpu")
    else:
        run(*pip, f"{built}[cpu]", **compiler)


def _run(folder: Path, seconds: float, *words: str, **environment: str) -> str:
    # Not in the checkout: what is tested is what was installed.
    return processes.require(*words, folder=folder, deadline_seconds=seconds, **environment).output
