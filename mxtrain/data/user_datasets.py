"""The user's own Gluon Datasets and DataLoaders, as data sets that can be trained on.

A Dataset of (picture, label) becomes `Records`: its order, augmentation and resume are mxtrain's. A DataLoader of
(pictures, labels) decides all that itself, and is only cut into micro-batches. Both are recognised by their methods,
so that MXNet is not imported. Does not load the user's code (`train/open_data.py`).
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any, Iterable, Iterator

import numpy as np

from mxtrain.core.errors import DataError, UsageError, in_user_code
from mxtrain.data.assembly import Array
from mxtrain.data.loader import Batch, Request
from mxtrain.data.recordio import Floats, Ints
from mxtrain.data.records import Record


def is_data_loader(source: Any) -> bool:
    """Return whether an object can be iterated but not indexed, as a Gluon DataLoader."""
    return not hasattr(source, "__getitem__") and hasattr(source, "__iter__")


class UserDataset:
    """`Records` of a Gluon Dataset, read by one thread at a time: Gluon's record datasets share a file handle.

    `name` and `flag` are the user's own, for messages. All labels are read at once.
    """

    def __init__(self, name: str, dataset: Any, flag: str = "--train"):
        self.path = Path(name)
        self._user = f"{flag} {name}"
        self.files: list[Path] = []
        self.descriptors: tuple[int, ...] = ()
        self.keys: Ints = np.arange(len(dataset))
        self.class_names: list[str] | None = getattr(dataset, "synsets", None)
        self._dataset = dataset
        self._lock = threading.Lock()
        self._labels = _labels(dataset)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, position: int, verify: bool = True) -> Record:
        with self._lock, in_user_code(self._user):
            picture, label = self._dataset[position]
            pixels = _to_numpy(picture)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
            raise UsageError(
                f"{self.path}: gives {pixels.dtype} {pixels.shape} for a picture; give uint8 (height, width, 3), "
                "before any transform, or a DataLoader of finished batches"
            )
        colour = np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
        return Record(position, float(label), colour)

    def where(self, position: int) -> str:
        return f"{self.path}: sample {position}"

    def will_need(self, positions: Ints) -> None:
        """Do nothing: only the Dataset knows where its samples are."""

    def labels(self) -> Floats:
        return self._labels


class UserBatches:
    """A `Dataset` of a Gluon DataLoader, each batch of which is one step of `batch_size` samples."""

    def __init__(self, name: str, batches: Any, batch_size: int, image_size: int):
        self.path = Path(name)
        self.files: list[Path] = []
        self.class_names = None
        self._batches = batches
        self._batch_size = batch_size
        self._shape = (batch_size, 3, image_size, image_size)

    def __len__(self) -> int:
        """Return the number of samples in an epoch."""
        return len(self._batches) * self._batch_size

    def where(self, position: int) -> str:
        return f"{self.path}: sample {position} of an epoch"

    def labels(self) -> Floats:
        """Return no labels: they are not known before their batch is loaded."""
        return np.zeros(0, np.float32)

    def loader(self, requests: Iterable[Request], num_classes: int) -> UserLoader:
        """Return a loader of the micro-batches that are requested; their samples are those of the DataLoader."""
        return UserLoader(self._micro_batches(requests, num_classes))

    def _micro_batches(self, requests: Iterable[Request], num_classes: int) -> Iterator[Batch]:
        """Iterate the DataLoader once an epoch; a resume in the middle of one skips the batches before it."""
        epoch, batches = None, iter(())
        for step, of_step in itertools.groupby(requests, key=lambda request: request.step):
            wanted = list(of_step)
            if wanted[0].epoch != epoch:
                epoch = wanted[0].epoch
                batches = itertools.islice(self._batches, step % len(self._batches), None)
            with in_user_code(f"--train {self.path}"):
                batch = next(batches, None)
            data, label = self._checked(batch, num_classes)
            start = 0
            for request in wanted:
                rows = slice(start, start + len(request.samples))
                start = rows.stop
                yield Batch(request, data[rows], label[rows], None)

    def _checked(self, batch: Any, num_classes: int) -> tuple[Array, Array]:
        if batch is None:
            raise DataError(
                f"--train {self.path}: ended before its {len(self._batches)} batches; its len() must be right"
            )
        try:
            # Copies: --mixup and --cutmix work in place, and these may be the user's own arrays.
            data, label = (np.array(_to_numpy(part), np.float32, order="C") for part in batch)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"--train {self.path}: gave something else than two arrays ({error}); give (pictures, labels)"
            ) from None
        if label.shape != (self._batch_size,):
            raise UsageError(
                f"--train {self.path}: gave labels of shape {label.shape}, but a batch is a step: give as many as "
                f"--batch-size {self._batch_size}, with last_batch='discard'"
            )
        if data.shape != self._shape:
            raise UsageError(
                f"--train {self.path}: gave pictures of shape {data.shape}; give {self._shape}, as --batch-size and "
                "--image-size say"
            )
        if not ((label >= 0) & (label < num_classes)).all():
            raise DataError(
                f"--train {self.path}: gives labels from {label.min():g} to {label.max():g}; there are {num_classes} "
                "classes"
            )
        return data, label


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

    def release(self, batch: Batch) -> None:
        """Do nothing: a batch owns its memory."""


def _to_numpy(array: Any) -> Array:
    return np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)


def _labels(dataset: Any) -> Floats:
    """Take the labels from where Gluon's own datasets keep them, or else read every sample once."""
    if hasattr(dataset, "items") and hasattr(dataset, "synsets"):
        found = [label for _, label in dataset.items]
    elif getattr(dataset, "_label", None) is not None:
        found = dataset._label
    else:
        found = [dataset[position][1] for position in range(len(dataset))]
    return np.asarray(found, np.float32)
