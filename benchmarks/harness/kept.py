"""Findings of entries that take minutes each, kept in a file: the same command goes on after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import attempt


def read(path: Path, key: str) -> dict[str, Any]:
    """Return what is known, by what each line has under `key`; the last line of each counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {each[key]: each for each in map(json.loads, lines)}


def add(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(found) + "\n")


def in_a_process(*line: object, **options: Any) -> dict[str, Any]:
    """Return what a process of its own finds, or why it failed: its memory is free then, and nothing can hang."""
    ended = attempt(*line, **options)
    found: dict[str, Any] = {"failed": ended.last_error} if ended.exit_code else ended.answer
    return found
