"""metrics.jsonl: the truth about a run. Owns the file; the other sinks show what is in it."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

from mxtrain.core import durable
from mxtrain.report.sinks.record import BEGINNINGS, OF_EVALUATIONS, Record

logger = logging.getLogger(__name__)


class Before(NamedTuple):
    """The attempts before this one, and what the last of them had done past the checkpoint."""

    attempts: int = 0
    lost_steps: int = 0
    lost_seconds: float = 0.0


class JsonLines:
    """A file with one JSON object a line, complete after every record.

    On resume, lines past the checkpoint are cut away: no step appears twice and none is missing. The evaluation
    after its last step is past it as long as the checkpoint has no score of it. Events up to the checkpoint stay:
    after two attempts from one checkpoint there are two restarts.
    """

    def __init__(self, path: Path, last_step: int, last_is_scored: bool):
        last_evaluation = last_step if last_is_scored else last_step - 1
        lines = _lines(path)
        older = _older(lines, last_step)
        kept = [line for line in older if line.startswith("{") and line.endswith("}")]
        if len(kept) < len(older):
            logger.warning("%s: %d lines are no records, dropped", path, len(older) - len(kept))
        attempts, lost = max(map(_attempt, kept), default=0), []
        for line, record in _whole_records(path, lines, len(older)):
            attempts = max(attempts, _attempt(line))
            if record["step"] <= (last_evaluation if record.get("kind") in OF_EVALUATIONS else last_step):
                kept.append(line)
            else:
                lost.append(record)
        steps = [record for record in lost if record.get("kind") == "train"]
        seconds = sum(_seconds(record) for record in lost if record.get("kind") in ("train", "eval", "event"))
        self.before = Before(attempts, len(steps), round(seconds, 3))
        with durable.writing(path):
            durable.replace(path, "".join(line + "\n" for line in kept))
            self.path, self.file = path, path.open("a", buffering=1, encoding="utf-8")

    def write(self, record: Record) -> None:
        line = text(record)
        with durable.writing(self.path):
            if not os.fstat(self.file.fileno()).st_nlink:  # what is written to a file without a name is lost
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            self.file.write(line + "\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # only what could not be written before is left to write
            self.file.close()


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a metrics.jsonl; a line that a kill or a power failure has damaged is left out."""
    return (record for _, record in _whole_records(path, _lines(path)))


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace").rstrip("\n") if path.exists() else ""
    return text.split("\n") if text else []


def _older(lines: list[str], last_step: int) -> list[str]:
    """Return the lines before the last that is of a step up to `last_step`.

    They are of no later steps, as each attempt begins with a cut, so that none of a million is read for that.
    """
    for number in range(len(lines) - 1, -1, -1):
        record = _record(lines[number])
        if record is not None and record.get("kind") == "train" and record["step"] <= last_step:
            return lines[:number]
    return []


def _attempt(line: str) -> int:
    """Return the number of the attempt that begins with this line; of others 1, as they are of the first at least."""
    record = _record(line) if '"attempt"' in line else None
    return int(record.get("attempt", 1)) if record is not None and record.get("event") in BEGINNINGS else 1


def _whole_records(path: Path, lines: list[str], first: int = 0) -> Iterator[tuple[str, Record]]:
    """Yield the lines from number `first` on with their records; of a damaged one there is a warning."""
    for number, line in enumerate(lines[first:], start=first + 1):
        record = _record(line)
        if record is not None:
            yield line, record
        else:
            logger.warning("%s: line %d is no record, dropped", path, number)


def _record(line: str) -> Record | None:
    try:
        record: Record = json.loads(line)
        record["step"] + 0
        return record
    except (ValueError, TypeError, KeyError):
        return None


def text(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return a value as JSON, with null for numbers that are not finite; `default` as for `json.dumps`."""
    try:
        return json.dumps(value, allow_nan=False, default=default)
    except ValueError:
        return json.dumps(finite(json.loads(json.dumps(value, default=default))))


def finite(value: Any) -> Any:
    """Return the value with null for each number in it that is not finite: JSON has none of those."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return value


def _seconds(record: Record) -> float:
    seconds = record.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0
