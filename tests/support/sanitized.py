"""Programs of the part in C with the address and undefined-behaviour sanitizers, which end those that misuse memory."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

NATIVE = ROOT / "mxtrain" / "native"
BUILD = [
    "-g1",
    "-O0",  # most of the time goes into building it
    "-mavx2",
    "-mbmi2",
    "-mpclmul",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]


def built(folder: Path, program: Path, *tested: str) -> Path:
    """Return a program of this source and of the files it tests, all that need no Python; skips without a compiler.

    What programs of one folder have in common is compiled once.
    """
    files = [path for pattern in tested or ["*.c"] for path in sorted(NATIVE.glob(pattern))]
    sources = [path for path in files if not path.stem.endswith("module")]
    empty = folder / "empty.c"
    if not empty.exists():
        empty.write_text("int main(void) { return 0; }\n")
        if shutil.which("cc") is None or _compile(folder / "empty", empty).returncode:
            pytest.skip("needs a C compiler with sanitizers")
    objects = [_object(folder, source) for source in sources]
    done = _compile(folder / program.stem, program, *objects, "-lm")
    assert done.returncode == 0, done.stderr
    return folder / program.stem


def _object(folder: Path, source: Path) -> Path:
    made = folder / f"{source.stem}.o"
    if not made.exists():
        done = _compile(made, "-c", source)
        assert done.returncode == 0, done.stderr
    return made


def _compile(made: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    line = ["cc", *BUILD, f"-I{NATIVE}", f"-I{NATIVE / 'operators'}", "-o", made, *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


def output(program: Path, arguments: list[str]) -> str:
    """Return what a program prints; it has to end well."""
    done = subprocess.run(
        [program, *arguments],
        env={"ASAN_OPTIONS": "malloc_fill_byte=0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
