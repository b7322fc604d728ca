"""A trained net's answers to single inputs, whatever its task: micro-batches without labels.

Owns putting inputs together. What an input is, and what an answer says, is the task's (`tasks/task.py`).
"""

from __future__ import annotations

import itertools
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from mxtrain.config import batch_plan
from mxtrain.data import fields
from mxtrain.data.fields import Arrays, Field
from mxtrain.tasks.task import Task
from mxtrain.train.to_device import to_context


def of(task: Task, net: Any, context: Any, samples: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield what the net says of each sample, as the task shows it; as many are computed at once as in training."""
    waiting = iter(samples)
    while True:
        group = list(itertools.islice(waiting, batch_plan.of_run(task.run).micro_batch))
        if not group:
            return
        arrays = together(task.fields, [task.inputs_of(sample) for sample in group])
        output = task.answer(net, {name: to_context(array, context) for name, array in arrays.items()})
        yield from map(task.shown, output.asnumpy())


def together(all_fields: Sequence[Field], samples: Sequence[dict[str, Any]]) -> Arrays:
    """Return the inputs of some samples as a micro-batch, with lengths that vary filled up as the loader does it."""
    first = samples[0]
    present = [
        field._replace(dtype=np.asarray(first[field.name]).dtype.name)
        for field in all_fields
        if field.name in first
    ]
    memory = np.empty(fields.num_bytes(present, len(samples)), np.uint8)
    rows = fields.rows(present, len(samples), memory)
    for row, sample in enumerate(samples):
        rows.write(present, row, sample)
    return fields.cut(present, rows)
