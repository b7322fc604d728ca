"""The types of sources, and recognising one by its first bytes, its name, or the contents of the folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.table_selection import NO_SELECTION, Selection
from mxtrain.data.records import recordio

from .caffe import read_lmdb
from .folder import read_folder
from .hdf5 import read_hdf5
from .item import IMAGE_SUFFIXES, Source, is_folder, visible
from .labelled_text import read_labelled_text, read_tagged_text
from .listing import read_lst, read_table
from .rec import read_rec
from .table import read_arrays
from .tar import read_tars
from .text import read_text
from .tfrecord import is_tfrecord, read_tfrecords

SOURCE_TYPES = {
    "folder": "a folder per class",
    "lst": "MXNet's .lst",
    "csv": "CSV or TSV of path,label",
    "rec": ".rec, one or a folder of them",
    "webdataset": ".tar, one or a folder of them",
    "tfrecord": "TFRecord of tf.train.Example, one or a folder of them",
    "lmdb": "Caffe's LMDB",
    "hdf5": "HDF5 with images and labels",
    "text": ".txt, a folder of them, or .jsonl",
    "labelled_text": "a folder of .txt per class, or .jsonl of text and label",
    "tagged_text": ".jsonl of tokens and labels, or CoNLL columns",
    "arrays": "CSV, Parquet, HDF5, .npz or .npy of numbers",
}
_OF_SUFFIX = {
    ".lst": "lst",
    ".csv": "csv",
    ".tsv": "csv",
    ".rec": "rec",
    ".tar": "webdataset",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".mdb": "lmdb",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".txt": "text",
    ".jsonl": "text",
    ".ndjson": "text",
    ".conll": "tagged_text",
    ".bio": "tagged_text",
    ".npz": "arrays",
    ".npy": "arrays",
    ".parquet": "arrays",
}
_TEXTS: dict[str, Callable[[Path], Source]] = {
    "text": read_text,
    "labelled_text": read_labelled_text,
    "tagged_text": read_tagged_text,
}
_WITH_LABELS: dict[str, Callable[[Path, bool], Source]] = {
    "rec": read_rec,
    "webdataset": read_tars,
    "tfrecord": read_tfrecords,
    "lmdb": read_lmdb,
    "hdf5": read_hdf5,
}


def open_source(
    path: Path,
    source_type: str | None = None,
    root: Path | None = None,
    multi_label: bool = False,
    columns: Selection = NO_SELECTION,
) -> Source:
    """Open a source; its `source_type` is recognised where it is None.

    `root` is --root, the folder that the paths of a list are relative to; `columns` are those of arrays,
    which a source is where one of its flags is there. DataError where the source is missing or damaged, UsageError
    where an option does not fit its type.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist")
    try:
        if not path.is_dir():
            regular_files.require(path)
        known_type = source_type or ("arrays" if columns != NO_SELECTION else recognise(path))
        if known_type == "arrays":
            _refuse("--root", root is not None, path, known_type)
            _refuse("--multi-label", multi_label, path, known_type)
            return read_arrays(path, columns)
        for name, text in columns._asdict().items():
            _refuse(f"--{name.replace('_', '-')}", text != getattr(NO_SELECTION, name), path, known_type)
        return _opened(path, known_type, root, multi_label)
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from None


def _opened(path: Path, source_type: str, root: Path | None, multi_label: bool) -> Source:
    if root and source_type not in ("lst", "csv"):
        raise UsageError(
            f"--root is for lists of files, and {path} is {SOURCE_TYPES[source_type]}: leave it out"
        )
    if multi_label and source_type in ("folder", *_TEXTS, "lmdb"):
        raise UsageError(
            f"--multi-label: {path} is {SOURCE_TYPES[source_type]}, which has no more than one label an item"
        )
    if source_type in ("lst", "csv"):
        return (read_lst if source_type == "lst" else read_table)(path, root, multi_label)
    if source_type in _WITH_LABELS:
        return _WITH_LABELS[source_type](path, multi_label)
    return _TEXTS.get(source_type, read_folder)(path)


def _refuse(flag: str, is_set: bool, path: Path, source_type: str) -> None:
    if is_set:
        raise UsageError(
            f"{flag}: {path} is {SOURCE_TYPES[source_type]}, where it means nothing: leave it out"
        )


def recognise(path: Path) -> str:
    """Return the type of a source, a key of SOURCE_TYPES; UsageError where it is none, or could be several."""
    if path.is_dir():
        return _of_folder(path)
    start = _start(path)
    source_type = _of_start(start) or _OF_SUFFIX.get(path.suffix.lower())
    if source_type is None:
        looks_like = recordio.describe(start, path.stat().st_size) if start else "an empty file"
        raise UsageError(
            f"{path} looks like {looks_like}, and no source: {_known()}; --from says which it is"
        )
    return source_type


def _of_folder(path: Path) -> str:
    entries = visible(path)
    if any(entry.name == "data.mdb" for entry in entries):
        return "lmdb"
    files = [Path(entry.path) for entry in entries if not is_folder(entry)]
    reasons: dict[str, Path] = {}  # from each type that it could be to the file that suggests it
    for file in files:
        source_type = _OF_SUFFIX.get(file.suffix.lower())
        if source_type in ("webdataset", "rec", "tfrecord"):
            reasons.setdefault(source_type, file)
    if not reasons and files and is_tfrecord(_start(files[0])):  # often named train-00000-of-01024
        reasons["tfrecord"] = files[0]
    folders = (Path(entry.path) for entry in entries if is_folder(entry))
    with_images = next((folder for folder in folders if _holds(folder, IMAGE_SUFFIXES)), None)
    if with_images:
        reasons["folder"] = with_images
    if len(reasons) > 1:
        could_be = " or ".join(
            f"{source_type} (it has {reason.name})" for source_type, reason in sorted(reasons.items())
        )
        raise UsageError(f"{path} could be {could_be}: say which with --from, or move the other away")
    if not reasons and _holds(path, (".txt",)):
        return "text"
    return next(iter(reasons), "folder")


def _holds(folder: Path, suffixes: tuple[str, ...]) -> bool:
    return any(name.lower().endswith(suffixes) for _, _, names in os.walk(folder) for name in names)


def _of_start(start: bytes) -> str | None:
    if start.startswith(recordio.MAGIC_BYTES):
        return "rec"
    if start[257:262] == b"ustar":
        return "webdataset"
    if start.startswith(b"\x89HDF"):
        return "hdf5"
    if start[16:20] == b"\xde\xc0\xef\xbe":
        return "lmdb"
    return "tfrecord" if is_tfrecord(start) else None


def _start(path: Path) -> bytes:
    if not path.is_file():  # a pipe would wait for its writer
        return b""
    with path.open("rb") as file:
        return file.read(512)


def _known() -> str:
    return "known are " + ", ".join(f"{source_type} ({what})" for source_type, what in SOURCE_TYPES.items())
