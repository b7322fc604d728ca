"""A task that brings rows to life, as many a step as fit: each record has a number, and stands for so many ids.

`--task benchmarks.tables.filler:Filler` on what `write` has written. The net is a table, the mean of a sample's rows,
and a layer; a target of 1 makes a gradient for every row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

import numpy as np

from mxtrain.data.fields import Field
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.models.contract import Contract
from mxtrain.tasks.task import Outcome, Task

IDS, WIDTH = 4096, 16  # of a sample, and of a row


def write(path: Path, num_rows: int) -> Path:
    """Write records for so many ids, and return their path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with RecordWriter(path) as writer:
        for number in range(-(-num_rows // IDS)):
            writer.write(number, 0.0, number.to_bytes(8, "little"))
    return path


def read(record: Any, rng: Any, row: Any) -> dict[str, Any]:
    """Return the ids of a record."""
    first = int.from_bytes(record.payload, "little") * IDS
    return {"ids": np.arange(first, first + IDS), "one": 1.0}


class Filler(Task):
    """Rows that are moved towards a mean of 1."""

    fields: Sequence[Field] = (Field("ids", (IDS,), "int64"), Field("one", ()))

    @classmethod
    def describe(cls, run: Any, train: Any, val: Any) -> dict[str, Any]:
        return {}

    def reader(self, is_training: bool) -> Any:
        return read

    def contract(self) -> Contract:
        return Contract(((IDS,),), (1,), "sample", f"{IDS} ids", "it has to give a number")

    def build_net(self) -> Any:
        return net()

    def training_forward(self, teacher: Any) -> Any:
        return forward


def net() -> Any:
    """Return a table with a layer behind it."""
    from mxtrain.models import Table
    from mxtrain.runtime import mx

    class Means(mx.gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.rows = Table("rows", WIDTH, field="ids", optimizer="adagrad_row")
            self.layer = mx.gluon.nn.Dense(1)

        def forward(self, ids: Any) -> Any:
            return self.layer(self.rows(ids).mean(axis=1))

    return Means()


def forward(net: Any, arrays: Any) -> Outcome:
    """Return the squares of what answers are away from 1."""
    output = net(arrays["ids"])
    return Outcome((output.reshape(-1) - arrays["one"]) ** 2, len(output), {}, output)
