"""Runs of mxtrain's commands as a user makes them, and what they leave."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import DEADLINE_SECONDS, ROOT, run

DIGITS = ("--config", ROOT / "examples" / "digits.yaml")
SHAPES = ("--config", ROOT / "benchmarks" / "learn" / "shapes.yaml")
ENDED = "ended"  # a file beside what a run leaves


def fit(out: Path, *flags: object, deadline_seconds: float = DEADLINE_SECONDS) -> Path:
    """Run mxtrain.fit from the first step and return its run folder."""
    quiet = ("--log", "none", "--log-level", "warning", "--resume", "never")
    line = (sys.executable, "-m", "mxtrain.fit", *flags, *quiet, "--out", out)
    run(*line, deadline_seconds=deadline_seconds)
    return out


def fit_once(out: Path, *flags: object, deadline_seconds: float = DEADLINE_SECONDS) -> Path:
    """Run mxtrain.fit unless the folder has a run that ended, and return the run folder."""
    if is_missing(out):
        mark_ended(fit(out, *flags, deadline_seconds=deadline_seconds))
    return out


def is_missing(out: Path) -> bool:
    """Return whether a run has to be made; what is left of one that was stopped is removed."""
    if (out / ENDED).exists():
        return False
    shutil.rmtree(out, ignore_errors=True)
    return True


def mark_ended(out: Path) -> None:
    (out / ENDED).touch()


def pack(source: Path, rec: Path, *flags: object) -> Path:
    """Pack a source and return the .rec."""
    run(sys.executable, "-m", "tools.im2rec_wrapper", "pack", source, rec, *flags)
    return rec


def pack_digits(folder: Path, rec: Path, *flags: object) -> Path:
    """Pack the handwritten digits, whose pictures are written into a folder."""
    run(sys.executable, "examples/digits.py", folder)
    return pack(folder, rec, *flags)


def records(out: Path, kind: str) -> list[dict[str, Any]]:
    """Return the records of one kind (train, eval) that a run has written."""
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def last_score(out: Path, name: str) -> float:
    """Return a score of a run's last evaluation."""
    return float(records(out, "eval")[-1][name])
