"""A trained net's answers to single inputs, whatever its task: read ahead in threads, computed in micro-batches.

Owns putting inputs together. What an input is, and what an answer says, is the task's, by
`tasks/interfaces/prediction.py`.
"""

from __future__ import annotations

import collections
import contextlib
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from mxtrain.config import batch_plan
from mxtrain.core.errors import DataError
from mxtrain.core.system import machine
from mxtrain.data import fields
from mxtrain.data.fields import Arrays, Field
from mxtrain.data.loading.loader import MAX_THREADS
from mxtrain.inference.input_samples import Input
from mxtrain.models.analysis import features
from mxtrain.runtime import memory
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.net.to_device import to_device

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device, Net

logger = logging.getLogger(__name__)

# From the arrays of a micro-batch to what there is to say of each sample.
Compute = Callable[[Arrays], Iterable[Any]]
Read = Tuple[Input, Union[Mapping[str, Any], DataError]]
_MOST_BAD = 8  # micro-batches of inputs that are none, before those in between are answered


def predict_batches(
    task: Task, compute: Compute, inputs: Iterable[Input | None]
) -> Iterator[tuple[Input, Any]]:
    """Yield each input with what `compute` says of it, or the DataError of one that is none, in their order.

    As many are computed at once as in training; fewer before a None, which says that the next may take its time.
    """
    size = batch_plan.of_run(task.run).micro_batch
    compute = tasks.named(task, compute)
    with contextlib.closing(_read(task, inputs, 2 * size)) as read:
        for group in _groups(read, size):
            good = [values for _, values in group if not isinstance(values, DataError)]
            answers = iter(compute(together(task.fields, good)) if good else ())
            for each, values in group:
                yield each, values if isinstance(values, DataError) else next(answers)


def prediction_function(task: Task, net: Net, context: Device) -> Compute:
    """Return the function that computes what the net says of samples, as the task shows it."""

    prediction, has_warned = tasks.prediction_of(task), False

    def compute(arrays: Arrays) -> Iterable[dict[str, Any]]:
        nonlocal has_warned
        answers = memory.numbers(prediction.answer(net, _placed(arrays, context)))
        if not has_warned and not np.isfinite(answers).all():
            has_warned = True
            logger.warning(
                "the net says numbers that are not finite, as one does that has diverged; --checkpoint has others"
            )
        return map(prediction.shown, answers)

    return compute


def features_by(task: Task, net: Net, name: str, context: Device) -> Compute:
    """Return the function that computes the features of samples, what the head of the net takes; UsageError without."""
    prediction, tapped = tasks.prediction_of(task), features.tapped(net, name)

    def compute(arrays: Arrays) -> Iterable[dict[str, Any]]:
        prediction.answer(tapped, _placed(arrays, context))
        return [{"features": row} for row in features.by_sample(tapped.taken, name).asnumpy()]

    return compute


def together(all_fields: Sequence[Field], samples: Sequence[Mapping[str, Any]]) -> Arrays:
    """Return the inputs of some samples as a micro-batch, with lengths that vary filled up as the loader does it."""
    first = samples[0]
    present = [
        field._replace(dtype=np.asarray(first[field.name]).dtype.name)
        for field in all_fields
        if field.name in first
    ]
    block = np.empty(fields.num_bytes(present, len(samples)), np.uint8)
    rows = fields.rows(present, len(samples), block)
    for row, sample in enumerate(samples):
        rows.write(present, row, sample)
    return fields.cut(present, rows)


def _placed(arrays: Arrays, context: Device) -> dict[str, Any]:
    return {name: to_device(array, context) for name, array in arrays.items()}


def _groups(read: Iterable[Read | None], size: int) -> Iterator[list[Read]]:
    """Yield inputs in groups of so many good ones."""
    group: list[Read] = []
    num_good = 0
    for entry in read:
        if entry is not None:
            group.append(entry)
            num_good += not isinstance(entry[1], DataError)
        if group and (entry is None or num_good == size or len(group) == _MOST_BAD * size):
            yield group
            group, num_good = [], 0
    if group:
        yield group


def _read(task: Task, inputs: Iterable[Input | None], num_ahead: int) -> Generator[Read | None, None, None]:
    """Yield inputs with their arrays, read up to so many ahead; a user's task, which may compute, reads them here."""
    if not tasks.is_built_in(task):
        for sample in inputs:
            yield None if sample is None else (sample, _values(sample))
        return
    waiting: collections.deque[tuple[Input, Future[Any]]] = collections.deque()
    pool = ThreadPoolExecutor(min(machine.usable_cores(), MAX_THREADS), "reader")
    try:
        for sample in inputs:
            if sample is not None:
                waiting.append((sample, pool.submit(_values, sample)))
            while waiting and (sample is None or len(waiting) > num_ahead):
                done, future = waiting.popleft()
                yield done, future.result()
            if sample is None:
                yield None
        while waiting:
            done, future = waiting.popleft()
            yield done, future.result()
    finally:
        for _, future in waiting:
            future.cancel()
        pool.shutdown()


def _values(sample: Input) -> Mapping[str, Any] | DataError:
    """Return the arrays of an input, or why it is none: an exception that is kept would keep them all by its frames."""
    try:
        return sample.values()
    except DataError as error:
        return error.with_traceback(None)
