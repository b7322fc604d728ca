"""tools/environment.sh, which `make env` is: what it makes, keeps, makes anew and refuses.

Its Pythons are stand-ins that make and fill an environment in no time; CI's `make demo` runs the real thing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_SECONDS = 60
STAND_IN = """#!/bin/sh
case "$*" in
*version_info*) echo {version} ;;
"-c import ensurepip, venv") {can_make_environments} ;;
"-m venv "*) mkdir -p "$3/bin" "$3/lib/python{version}"; cp "$0" "$3/bin/python" ;;
"-m pip --version") ;;
"-m pip "*) echo "{version} $*" >> "$INSTALLED"; exit "${{PIP_EXIT_CODE:-0}}" ;;
esac
"""
Make = Callable[..., "subprocess.CompletedProcess[str]"]


def add_python(checkout: Path, name: str, version: str, can_make_environments: bool = True) -> None:
    path = checkout / "path" / name
    path.write_text(
        STAND_IN.format(version=version, can_make_environments=str(can_make_environments).lower())
    )
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what `make env` reads, and a PATH on which no Python is found but the stand-ins."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "mxtrain" / "data" / "native").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "setup.py", "tools/environment.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    for path in (ROOT / "mxtrain" / "data" / "native").glob("*.[ch]"):
        shutil.copy(path, tmp_path / "mxtrain" / "data" / "native")
    (tmp_path / "path").mkdir()
    for tool in (
        "sh",
        "make",
        "cmp",
        "cp",
        "grep",
        "dirname",
        "find",
        "mkdir",
        "rm",
        "rmdir",
        "sed",
        "touch",
    ):
        (tmp_path / "path" / tool).symlink_to(str(shutil.which(tool)))
    return tmp_path


@pytest.fixture
def make(checkout: Path) -> Make:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(shutil.which("make")), "--silent", "env", *arguments],
            cwd=checkout,
            env={"PATH": str(checkout / "path"), "INSTALLED": str(checkout / "installed"), **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )

    return run


def installed(checkout: Path) -> list[str]:
    """Return which Python installed what since the last call."""
    path = checkout / "installed"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.split()[0] + " " + line.split()[-1] for line in lines]


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that says why; make's own last line follows it."""
    assert done.returncode == 2, done
    line, of_make = done.stderr.splitlines()
    assert of_make.startswith("make: ***")
    return line


WHOLE = ["3.11 pip>=23", "3.11 .[cpu,dev]"]


def test_an_environment_is_made_once_and_brought_up_to_date(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11")
    assert make().returncode == 0 and installed(checkout) == WHOLE
    assert make().returncode == 0 and installed(checkout) == []
    (checkout / ".venv" / "kept").touch()
    ready = (checkout / ".venv" / "ready").stat().st_mtime
    os.utime(checkout / "pyproject.toml", (ready + 1, ready + 1))
    assert make().returncode == 0 and installed(checkout) == WHOLE
    assert (checkout / ".venv" / "kept").exists()


def test_a_wrong_python_is_refused_and_the_next_make_works(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11")
    add_python(checkout, "python3.7", "3.7")
    line = refusal(make("PYTHON=python3.7"))
    assert "PYTHON=python3.7 is Python 3.7" in line and "as in PYTHON=python3." in line
    assert "PYTHON=python3.99 does not start" in refusal(make("PYTHON=python3.99"))
    assert not (checkout / ".venv").exists() and installed(checkout) == []
    assert make().returncode == 0 and installed(checkout) == WHOLE
    refusal(make("PYTHON=python3.7"))  # also where an environment is ready, which is kept
    assert make().returncode == 0 and installed(checkout) == []


def test_the_newest_python_that_will_do_is_found(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.7")
    assert "no Python 3.8 to 3." in refusal(make())
    add_python(checkout, "python3.9", "3.9")
    add_python(checkout, "python3.10", "3.10")
    assert make().returncode == 0 and installed(checkout)[-1] == "3.10 .[cpu,dev]"


def test_a_python_without_venv_is_refused(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11", can_make_environments=False)
    line = refusal(make())
    assert "python3-venv" in line and "PYTHON=" in line


def test_a_half_made_environment_is_made_anew(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11")
    assert make(PIP_EXIT_CODE="1").returncode == 2
    (checkout / ".venv" / "left_over").touch()
    installed(checkout)
    assert make().returncode == 0 and installed(checkout) == WHOLE
    assert not (checkout / ".venv" / "left_over").exists()


def test_an_environment_of_another_python_is_made_anew(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11")
    add_python(checkout, "python3.9", "3.9")
    make()
    assert make("PYTHON=python3.9").returncode == 0 and installed(checkout)[-1] == "3.9 .[cpu,dev]"
    assert make().returncode == 0 and installed(checkout) == []  # it stays, as nothing else is asked for
    (checkout / ".venv" / "bin" / "python").unlink()  # the system's Python is gone
    assert make().returncode == 0 and installed(checkout) == WHOLE


def test_a_locked_environment_has_the_wheels_of_its_lock_and_no_others(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11")
    add_python(checkout, "python3.13", "3.13")
    assert "there is no locks/python3.11-dev.txt" in refusal(make("LOCKED=1"))
    make()
    (checkout / ".venv" / "left_over").touch()
    locked = ["PYTHON=python3.13", "LOCKED=1"]
    lock = checkout / "locks" / "python3.13-dev.txt"
    lock.parent.mkdir()
    lock.write_text("pip==26.3 --hash=sha256:0\n")
    installed(checkout)
    assert make(*locked).returncode == 0
    assert installed(checkout) == ["3.13 /dev/stdin", "3.13 locks/python3.13-dev.txt", "3.13 ."]
    assert not (checkout / ".venv" / "left_over").exists()
    assert (checkout / ".venv" / "locked_by.txt").read_text() == lock.read_text()
    assert make(*locked).returncode == 0 and make().returncode == 0 and installed(checkout) == []
    lock.write_text("pip==26.4 --hash=sha256:0\n")
    assert make(*locked).returncode == 0 and len(installed(checkout)) == 3
    ready = (checkout / ".venv" / "ready").stat().st_mtime
    os.utime(checkout / "pyproject.toml", (ready + 1, ready + 1))
    assert make().returncode == 0 and installed(checkout)[-1] == "3.13 .[cpu,dev]"
    assert not (checkout / ".venv" / "locked_by.txt").exists()


def test_an_environment_of_the_users_own_is_never_removed(checkout: Path, make: Make) -> None:
    add_python(checkout, "python3", "3.11")
    add_python(checkout, "python3.9", "3.9")
    subprocess.run(
        [checkout / "path" / "python3", "-m", "venv", checkout / "own"], check=True, timeout=TIMEOUT_SECONDS
    )
    assert make("VENV=own").returncode == 0 and installed(checkout) == WHOLE
    assert "own has no working Python 3.9" in refusal(make("VENV=own", "PYTHON=python3.9"))
    (checkout / "pictures").mkdir()
    (checkout / "pictures" / "1.jpg").touch()
    assert "remove it, or name another with VENV=" in refusal(make("VENV=pictures"))
    assert (checkout / "pictures" / "1.jpg").exists() and (checkout / "own" / "ready").exists()
