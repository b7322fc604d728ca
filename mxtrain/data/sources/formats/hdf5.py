"""The source of HDF5 files with a dataset of images and one of labels.

Images are encoded files (variable-length uint8, or opaque bytes) or raw 8-bit pixels, (n, height, width[, 3]) in RGB
or planes (n, 3, height, width); raw ones are packed as PNG, which loses nothing. Labels are (n,), numbers or names,
or (n, k) numbers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.sources.formats.raw_pixels import as_png
from mxtrain.data.sources.item import BadItem, Item, Source
from mxtrain.data.sources.labels import RawLabels, resolve_labels

IMAGES = ("images", "image", "data", "x", "X")
LABELS = ("labels", "label", "targets", "y", "Y")


def read_hdf5(path: Path, multi_label: bool, unlabelled: bool = False) -> Source:
    """Read the labels of a file; DataError where its datasets do not fit each other."""
    file = _open(path)
    images = _dataset(file, path, IMAGES)
    raw_labels = [(0,)] * len(images) if unlabelled else _raw_labels(file, path, len(images))
    labels, class_names = resolve_labels(raw_labels, path, multi_label)
    items = [Item(f"{path.name}:{position}", label, position) for position, label in enumerate(labels)]

    descriptor = file.id.get_vfd_handle()
    num_bytes = os.fstat(descriptor).st_size

    def read(item: Item) -> bytes:
        if os.fstat(descriptor).st_size < num_bytes:  # of what is behind the end HDF5 makes zeros
            raise BadItem(f"{path.name} has become shorter since it was listed")
        value = images[item.location]  # h5py lets one thread in at a time
        if isinstance(value, (bytes, np.void)):
            return bytes(value)
        return value.tobytes() if value.ndim == 1 else as_png(value)

    return Source(items, read, class_names, files=[path])


def _raw_labels(file: Any, path: Path, num_images: int) -> list[RawLabels]:
    label_set = _dataset(file, path, LABELS)
    if num_images != len(label_set):
        raise DataError(f"{path} has {num_images} images and {len(label_set)} labels: make them as many")
    values = label_set.asstr()[()] if label_set.dtype.kind in "OS" else label_set[()]
    return [tuple(row) if isinstance(row, list) else (row,) for row in values.tolist()]


def _open(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise UsageError("reading HDF5 needs the package h5py: pip install 'mxtrain[sources]'") from None
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path} is no HDF5 file, or a damaged one ({error})") from None


def _dataset(file: Any, path: Path, names: tuple[str, ...]) -> Any:
    name = next((name for name in names if name in file and hasattr(file[name], "shape")), None)
    if name is None:
        wanted = " or ".join(names)
        raise DataError(
            f"{path} has no dataset {wanted}; it has {', '.join(sorted(file)) or 'none'}: rename it"
        )
    return file[name]
