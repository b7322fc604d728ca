"""Contents of the sinks of a run, read as their own viewers do."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Iterator

import pytest

BLOCK = 1 << 15  # of W&B's files, which are LevelDB's logs: a head of 7 bytes, then parts of records


def tensorboard(out: Path) -> Any:
    """Return what TensorBoard's own reader finds in a run folder."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = reading.EventAccumulator(
        str(out / "logs" / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0}
    )
    return found.Reload()


def wandb_files(out: Path) -> list[Path]:
    return sorted(out.glob("logs/wandb/offline-run-*/*.wandb"))


def wandb_records(path: Path) -> Iterator[Any]:
    from wandb.proto import wandb_internal_pb2

    content, place, record = path.read_bytes(), 7, b""
    while place + 7 < len(content):
        if BLOCK - place % BLOCK < 7:
            place += BLOCK - place % BLOCK
        _, size, part = struct.unpack("<IHB", content[place : place + 7])
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if part in (1, 4):  # whole, or its last part
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def wandb_rows(out: Path) -> list[dict[str, Any]]:
    found = []
    for path in wandb_files(out):
        for record in wandb_records(path):
            items = record.history.item
            if items:
                found.append(
                    {"/".join(each.nested_key) or each.key: json.loads(each.value_json) for each in items}
                )
    return found
