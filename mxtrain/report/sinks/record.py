"""A record of a run: a plain dict, one line of metrics.jsonl. docs/records.md says what each kind holds.

Owns the kinds that evaluations have, events, and the numbers of a record by name, as charts want them.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator

Record = Dict[str, Any]

OF_EVALUATIONS = ("eval", "classes", "worst")
BEGINNINGS = ("start", "restart")  # events, one for each attempt
ENDS = ("end", "stop")  # the same
PLACE = ("kind", "step", "epoch", "time")


def event(name: str, step: int, epoch: int, text: str, **more: Any) -> Record:
    """Return the record of an event; `text` is a sentence for people."""
    return {"kind": "event", "event": name, "step": step, "epoch": epoch, "text": text, **more}


def numbers(record: Record) -> dict[str, float]:
    """Return the numbers of a record by names for charts, as `train/loss`, `layers/gradients/dense0_weight`.

    Lists, as of a confusion matrix or of samples, are no curves and left out.
    """
    prefix = record["kind"]
    if prefix == "workers":
        return dict(_numbers(prefix, record["workers"]))
    if prefix == "system" and "host" in record:
        prefix = f"system/{record['host']}"
    return dict(_numbers(prefix, {name: record[name] for name in record if name not in PLACE}))


def _numbers(prefix: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, (int, float)):
        yield prefix, float(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(f"{prefix}/{name}", inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:  # of workers or GPUs, which say which they are
            which = next((inner[name] for name in ("rank", "index") if name in inner), None)
            if which is not None:
                others = {name: inner[name] for name in inner if name not in ("rank", "index")}
                yield from _numbers(f"{prefix}/{which}", others)
