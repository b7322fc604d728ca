"""The user's own Gluon Datasets and DataLoaders, as data sets that can be trained on.

A Dataset becomes `Records`, as the task says: its order, augmentation and resume are mxtrain's. A DataLoader decides
all that itself, and is only cut into micro-batches. Both are recognised by their methods: MXNet is not imported.
Does not load the user's code (`train/open_data.py`), nor know what an item looks like (`user_samples.py`, tasks).
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from mxtrain.config.components import import_path
from mxtrain.config.program_objects import is_object
from mxtrain.core.errors import DataError, in_user_code
from mxtrain.data.fields import Arrays
from mxtrain.data.interfaces import Record
from mxtrain.data.labels import label_precision
from mxtrain.data.loading.loader import Batch, Request
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.user.user_samples import in_numpy, record_of_pair

GLUONS = ("mxnet.", "gluoncv.")  # the modules of Gluon's own data sets
RecordOf = Callable[
    [int, object, str], Record
]  # from an item's number, the item, and the beginning of messages


def is_data_loader(source: object) -> bool:
    """Return whether an object can be iterated but not indexed, as a Gluon DataLoader."""
    return not hasattr(source, "__getitem__") and hasattr(source, "__iter__")


class UserDataset:
    """`Records` of a Gluon Dataset, read by one thread at a time: Gluon's record datasets share a file handle.

    `name` and `flag` are the user's own, for messages. `record_of` is the task's. All labels are read at once, unless
    they are given as `labels`. A worker process calls the function that `name` is again, or has a copy of an object.
    """

    prefers_threads = True  # nobody knows what it costs to make it again in each process

    def __init__(
        self,
        name: str,
        dataset: Any,
        flag: str = "--train",
        record_of: RecordOf = record_of_pair,
        labels: Floats | None = None,
    ):
        self.path = Path(name)
        self._user = f"{flag} {name}"
        self.files: list[Path] = []
        self.descriptors: tuple[int, ...] = ()
        self.keys: Ints = np.arange(len(dataset))
        self.class_names: list[str] | None = getattr(dataset, "synsets", None)
        self._dataset = dataset
        self._record_of = record_of
        self._lock = threading.Lock()
        self._flag = flag
        self._labels = self._read_labels() if labels is None else labels

    def __reduce__(self) -> tuple[Callable[..., UserDataset], tuple[Any, ...]]:
        name = str(self.path)
        dataset = None if import_path.is_import_path(name) and not is_object(name) else self._dataset
        return _in_worker, (name, dataset, len(self), self._flag, self._record_of, self._labels)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, position: int, verify: bool = True) -> Record:
        with self._lock, in_user_code(self._user):
            item = self._dataset[position]
            if isinstance(item, (tuple, list)):
                item = tuple(map(in_numpy, item))
            return self._record_of(position, item, self._user)

    def where(self, position: int) -> str:
        return f"{self.path}: sample {position}"

    def will_need(self, positions: Ints) -> None:
        """Do nothing: only the Dataset knows where its samples are."""

    def labels(self) -> Floats:
        return self._labels

    def _read_labels(self) -> Floats:
        """Take the labels from where Gluon's own datasets keep them, or else read every sample once."""
        # A user's own may call something else by these names, and one that inherits may give other labels.
        is_gluons = getattr(type(self._dataset).__getitem__, "__module__", "").startswith(GLUONS)
        if is_gluons and hasattr(self._dataset, "items") and hasattr(self._dataset, "synsets"):
            found: Any = [label for _, label in self._dataset.items]
        elif is_gluons and getattr(self._dataset, "_label", None) is not None:
            found = self._dataset._label
        else:
            found = [self.read(position).label for position in range(len(self))]
            if len({np.shape(label) for label in found}) > 1:
                return np.zeros(
                    0, np.float32
                )  # they are no table: a task that has such labels checks them itself
        return label_precision.of_labels(found)


def _in_worker(
    name: str, dataset: Any, count: int, flag: str, record_of: RecordOf, labels: Floats
) -> UserDataset:
    """Return the data set in a worker process; DataError where the function gives another one there."""
    if dataset is None:
        with in_user_code(f"{flag} {name}"):
            dataset = import_path.load_callable(flag, name)()
    if len(dataset) != count:
        raise DataError(
            f"{flag} {name}: returned {len(dataset)} samples in a loader's process, and {count} before; give --loader "
            "threads"
        )
    return UserDataset(name, dataset, flag, record_of, labels)


class UserBatches:
    """A `Dataset` of a Gluon DataLoader, each batch of which is one step of `batch_size` samples."""

    def __init__(self, name: str, batches: Any, batch_size: int):
        self.path = Path(name)
        self.files: list[Path] = []
        self.class_names: list[str] | None = None
        self._batches = batches
        self._batch_size = batch_size

    def __len__(self) -> int:
        """Return the number of samples in an epoch."""
        return len(self._batches) * self._batch_size

    def where(self, position: int) -> str:
        return f"{self.path}: sample {position} of an epoch"

    def labels(self) -> Floats:
        """Return no labels: they are not known before their batch is loaded."""
        return np.zeros(0, np.float32)

    def loader(self, requests: Iterable[Request], to_arrays: Callable[[object, str], Arrays]) -> UserLoader:
        """Return a loader of the micro-batches that are requested; their samples are those of the DataLoader.

        `to_arrays` makes a step's arrays of a batch, and gets the flag that named the DataLoader for messages.
        """
        return UserLoader(self._micro_batches(requests, to_arrays))

    def _micro_batches(
        self, requests: Iterable[Request], to_arrays: Callable[[object, str], Arrays]
    ) -> Iterator[Batch]:
        """Iterate the DataLoader once an epoch; a resume in the middle of one skips the batches before it."""
        epoch, batches, user = None, iter(()), f"--train {self.path}"
        for step, of_step in itertools.groupby(requests, key=lambda request: request.step):
            wanted = list(of_step)
            if wanted[0].epoch != epoch:
                epoch = wanted[0].epoch
                batches = itertools.islice(self._batches, step % len(self._batches), None)
            with in_user_code(user):
                batch = next(batches, None)
            if batch is None:
                raise DataError(
                    f"{user}: ended before its {len(self._batches)} batches; its len() must be right"
                )
            arrays, start = to_arrays(batch, user), 0
            for request in wanted:
                rows = slice(start, start + len(request.samples))
                start = rows.stop
                yield Batch(request, {name: array[rows] for name, array in arrays.items()}, None)


class UserLoader:
    """The micro-batches of a DataLoader, with the interface of `Loader`."""

    def __init__(self, batches: Iterator[Batch]):
        self.skipped: dict[int, str] = {}
        self._batches = batches

    def __enter__(self) -> UserLoader:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing: no resource is held."""

    def __iter__(self) -> Iterator[Batch]:
        return self._batches

    def peek(self, count: int) -> list[Batch]:
        """Return nothing: a DataLoader's next batch is known once it is made."""
        return []

    def release(self, batch: Batch) -> None:
        """Do nothing: a batch owns its memory."""
