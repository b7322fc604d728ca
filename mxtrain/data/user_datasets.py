"""A Gluon Dataset or DataLoader of the user's own, as records or as batches that the loop trains on.

A Dataset of (picture, label) is one more set of records: its order, augmentation and resuming are ours. A DataLoader
of (pictures, labels) decides all that by itself, and is only cut into micro-batches here. Both are taken for what they
do, so that nothing of MXNet is imported.
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


def is_data_loader(given: Any) -> bool:
    return not hasattr(given, "__getitem__") and hasattr(given, "__iter__")


class UserDataset:
    """A Dataset with what `Records` has. One thread at a time is let in: Gluon's record datasets share a file."""

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
        """Nothing: only the Dataset knows where its samples are."""

    def labels(self) -> Floats:
        return self._labels


class UserBatches:
    """A DataLoader, each batch of which is one step."""

    def __init__(self, name: str, batches: Any, batch_size: int, image_size: int):
        self.path = Path(name)
        self.files: list[Path] = []
        self.class_names = None
        self._batches = batches
        self._batch_size = batch_size
        self._shape = (batch_size, 3, image_size, image_size)

    def __len__(self) -> int:
        """Samples in an epoch."""
        return len(self._batches) * self._batch_size

    def where(self, position: int) -> str:
        return f"{self.path}: sample {position} of an epoch"

    def labels(self) -> Floats:
        """None are known before they come."""
        return np.zeros(0, np.float32)

    def loader(self, requests: Iterable[Request], num_classes: int) -> UserLoader:
        return UserLoader(self._micro_batches(requests, num_classes))

    def _micro_batches(self, requests: Iterable[Request], num_classes: int) -> Iterator[Batch]:
        """Each epoch iterates the DataLoader anew; going on in the middle of one skips batches by counting."""
        epoch, batches = None, iter(())
        for step, of_step in itertools.groupby(requests, key=lambda request: request.step):
            wanted = list(of_step)
            if wanted[0].epoch != epoch:
                epoch = wanted[0].epoch
                batches = itertools.islice(self._batches, step % len(self._batches), None)
            with in_user_code(f"--train {self.path}"):
                given = next(batches, None)
            data, label = self._checked(given, num_classes)
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
    """Batches of a DataLoader, with the face of `Loader`."""

    def __init__(self, batches: Iterator[Batch]):
        self.skipped: dict[int, str] = {}
        self._batches = batches

    def __enter__(self) -> UserLoader:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held here."""

    def __iter__(self) -> Iterator[Batch]:
        return self._batches

    def release(self, batch: Batch) -> None:
        """Its memory goes when the batch does."""


def _to_numpy(array: Any) -> Array:
    return np.asarray(array.asnumpy() if hasattr(array, "asnumpy") else array)


def _labels(dataset: Any) -> Floats:
    """Where Gluon's own datasets keep them, or else from every sample, read once."""
    if hasattr(dataset, "items") and hasattr(dataset, "synsets"):
        found = [label for _, label in dataset.items]
    elif getattr(dataset, "_label", None) is not None:
        found = dataset._label
    else:
        found = [dataset[position][1] for position in range(len(dataset))]
    return np.asarray(found, np.float32)
