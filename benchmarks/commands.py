"""Running mxtrain's commands as a user does, and parsing the benchmarks' own flags.

One that fails ends the benchmark with the reason it gave.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_SECONDS = 900


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser for a benchmark's flags; --help shows its module's docstring."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(*line: object) -> None:
    """Run a command in the checkout without showing its output."""
    words = [str(word) for word in line]
    ended = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # for scripts, and for other environments than ours
        timeout=DEADLINE_SECONDS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {ended.returncode}\n{ended.stderr.strip()}")


def fit(out: Path, *flags: object) -> Path:
    """Run mxtrain.fit from the first step and return its run folder."""
    quiet = ("--log", "none", "--log-level", "warning", "--resume", "never")
    run(sys.executable, "-m", "mxtrain.fit", *flags, *quiet, "--out", out)
    return out


def pack(source: Path, rec: Path) -> Path:
    run(sys.executable, "-m", "tools.im2rec_wrapper", "pack", source, rec)
    return rec
