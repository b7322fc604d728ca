"""Real samples, as a net takes them: exports are compared on them, and calibrated with them.

Owns choosing and reading them. How a record becomes what the net takes is the task's affair: its forward function is
run, and what it calls the net with is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Dict, Iterator, Sequence, cast

import numpy as np

from mxtrain.config.components import losses
from mxtrain.config.program_objects import name_of
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array, Arrays
from mxtrain.data.interfaces import Records
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader, Request, loader_options
from mxtrain.data.loading.order import Ints
from mxtrain.data.user.streams import Stream
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.models.nets.recommender_nets import OverRows
from mxtrain.runtime import mx
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.net.to_device import to_device
from mxtrain.train.open_data import open_source

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray

Batch = Dict[str, Array]  # the net's inputs, by name, as float32 (samples, ...)
LARGEST_ANSWER = 1 << 26  # numbers, over all samples


def open_records(task: Task, is_own: bool = True) -> Records:
    """Return the samples of the run's --val, or where it has none of its --train, checked to be the task's.

    `is_own` says whether they are those that the run was trained with.
    """
    data = task.run.data
    flag, source = ("--val", data.val) if data.val else ("--train", data.train)
    if not source:
        raise UsageError("--val is missing: the run had none, give a .rec file of samples to compare with")
    try:
        records = open_source(flag, source, task.run, task, task.objects)
    except DataError as error:
        if not is_own:
            raise
        raise DataError(f"{error} (this is the run's own {flag}; if that has moved, give --val)") from None
    if isinstance(records, Stream) or not hasattr(records, "read"):
        raise UsageError(
            f"{flag} {source}: gives samples that nobody can choose from; give --val a .rec file or a Dataset"
        )
    task.check(records)
    return cast(Records, records)


def noise(graph: InferenceGraph, count: int, dtype: str, batch: int = 16) -> list[Batch]:
    """Return made inputs for so many samples, for want of real ones: bytes, or numbers like normalised pixels."""
    rng = np.random.default_rng(0)
    sizes = [min(batch, count - start) for start in range(0, count, batch)]
    draw = rng.normal if dtype == "float32" else functools.partial(rng.integers, 256)
    return [
        {name: np.asarray(draw(size=(size, *shape))).astype(dtype) for name, shape in graph.inputs.items()}
        for size in sizes
    ]


def read(
    net: Block, graph: InferenceGraph, task: Task, records: Records, count: int = 64, batch: int = 16
) -> list[Batch]:
    """Return the net's inputs for about `count` samples, evenly spread over `records`, at most `batch` at a time.

    They are fewer where the net answers with very many numbers. Samples that vary in length are filled up, so that all
    have the shapes that the graph says.
    """
    most = LARGEST_ANSWER // sum(math.prod(shape) for shape in graph.outputs.values())
    without = _without_own_loss(task)
    forward = tasks.function_of(without, without.plain_forward)
    batches: list[Batch] = []
    for arrays in loaded(task, records, spread(records, max(1, min(count, most))), batch):
        noting = _Noting(net)
        forward(noting, {name: to_device(each, mx.cpu()) for name, each in arrays.items()})
        inputs = noting.inputs
        if isinstance(net, OverRows):  # whose graph is what is behind its table
            inputs = list(net.head_inputs(*inputs).values())
        batches.append(_named(inputs, graph, task))
    return batches


def spread(records: Records, count: int) -> Ints:
    """Return the positions of about `count` samples, evenly spread."""
    return np.unique(np.linspace(0, len(records) - 1, min(count, len(records))).astype(np.int64))


def loaded(task: Task, records: Records, chosen: Ints, batch: int = 16) -> Iterator[Arrays]:
    """Yield the arrays of the samples at these positions, as an evaluation has them; valid until the next ones."""
    reader = tasks.function_of(task, task.reader, False)
    assembly = SampleAssembly(records, reader, task.fields, seed=0, skip_bad=task.run.data.skip_bad)
    starts = enumerate(range(0, len(chosen), batch))
    requests = [Request(0, number, 0, chosen[start : start + batch]) for number, start in starts]
    options = dataclasses.replace(loader_options(task.run.data), num_prefetch=2)
    with Loader(assembly, requests, options) as loader:
        for made in loader:
            yield made.arrays
            loader.release(made)


def _without_own_loss(task: Task) -> Task:
    """Return the task with another loss in the place of one that is code: only what the net takes is of interest."""
    run = task.run
    if not tasks.is_built_in(task) or losses.parse(run.model.loss).name in losses.LOSSES:
        return task
    loss = name_of(_of_labels if task.metric_kind == "labels" else _of_samples)
    return dataclasses.replace(
        task, run=dataclasses.replace(run, model=dataclasses.replace(run.model, loss=loss))
    )


def _of_labels(output: NDArray, label: NDArray) -> NDArray:
    return output


def _of_samples(output: NDArray, label: NDArray) -> NDArray:
    means: NDArray = output.reshape((0, -1)).mean(axis=1)
    return means


class _Noting:
    """A net that keeps the inputs it was last called with."""

    def __init__(self, net: Block):
        self._net = net
        self.inputs: Sequence[NDArray] = ()

    def __call__(self, *inputs: NDArray) -> Any:
        self.inputs = inputs
        return self._net(*inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)


def _named(inputs: Sequence[NDArray], graph: InferenceGraph, task: Task) -> Batch:
    fills = {field.name: field.fill for field in task.fields}
    named: Batch = {}
    for (name, shape), array in zip(graph.inputs.items(), inputs):
        values = array.asnumpy().astype(np.float32, copy=False)
        whole = np.full((len(values), *shape), fills.get(name, 0), np.float32)
        whole[tuple(slice(length) for length in values.shape)] = values
        named[name] = whole
    return named
