"""mxtrain's side of a net of clicks, as `--task recommendation` trains it: its context, its batch and first weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import training
from benchmarks.step.nets import Net, batch
from benchmarks.tables import clicks

COLUMNS = ",".join(f"c{column}" for column in range(clicks.NUM_CATEGORIES))


class Repeated(list[Any]):
    """The micro-batches of a step, which those of the next one are too."""

    def peek(self, count: int) -> list[Any]:
        return self[:count]


def context_of(net: Net) -> Any:
    from mxtrain.data.arrays.table_selection import Selection
    from mxtrain.data.ids import id_tables
    from mxtrain.tasks.recommendation import Recommendation
    from mxtrain.train import job as jobs
    from mxtrain.train.context import build_context

    size = ("--batch-size", net.batch_size, "--micro-batch", net.batch_size, "--weight-decay", 0)
    learning = ("--model", net.model, "--optimizer", net.optimizer, "--lr", net.rate)
    columns = ("--task", "recommendation", "--categories", COLUMNS, "--target", "click")
    run = training.run_of(*columns, *learning, *size)
    with tempfile.TemporaryDirectory() as folder:
        path = clicks.write(Path(folder) / "clicks.npz", clicks.made(net.batch_size, net.ids))
        data = id_tables.open_records(path, Selection("click", categories=COLUMNS))
        task = Recommendation(run, Recommendation.describe(run, data, None))
        return build_context(jobs.of_data(task, data))


def batches_of(net: Net) -> Any:
    """Return the batch of a step, with ids that count from 0, as the rows of PyTorch's table do."""
    from mxtrain.data.loading.loader import Batch, Request

    (ids, numbers), clicked = batch(net)
    samples = np.arange(net.batch_size)
    arrays = {"ids": ids, "numbers": numbers, "label": clicked[:, None]}
    return Repeated([Batch(Request(0, 0, 0, samples), arrays, None)])


def first_weights(net: Net, context: Any) -> dict[str, Any]:
    """Return all weights that training begins with, rows that nobody has asked for among them, in PyTorch's order."""
    from mxtrain.models.parameters import weights
    from mxtrain.tables import first_values

    arrays = weights.copy_of(context.net)
    of_numbers = arrays.pop("head.of_numbers")[0]
    (table,) = context.tables.tables
    return {"of_numbers": of_numbers, "rows": first_values.rows(table.options, np.arange(net.ids)), **arrays}


def multiplications(net: Net, arrays: dict[str, Any]) -> int:
    """Return the number of a forward pass: each weight of the layers is used once for each click."""
    return net.batch_size * sum(each.size for name, each in arrays.items() if name.endswith(".weight"))
