"""Recognising the type of a source by its first bytes, its name, or the contents of the folder."""

from __future__ import annotations

import os
from pathlib import Path

from mxtrain.core.errors import UsageError
from mxtrain.data.input_files import is_folder
from mxtrain.data.records import recordio
from mxtrain.data.sources.formats.tfrecord import is_tfrecord
from mxtrain.data.sources.item import IMAGE_SUFFIXES, visible
from mxtrain.data.sources.masks.folders import LAYOUTS
from mxtrain.data.sources.source_types import SOURCE_TYPES

_OF_SUFFIX = {suffix: known.name for known in SOURCE_TYPES.values() for suffix in known.suffixes}

# Of Pascal VOC's, which has both, boxes are meant.
_FOLDERS = (
    ("voc", {"Annotations", "JPEGImages"}),
    ("yolo", {"images", "labels"}),
    *(("masks", {each.pictures, each.masks}) for each in LAYOUTS),
)


class UnknownSource(UsageError):
    """A path of no source, or of what could be several; only the packer has a flag that says which it is."""


def recognise(path: Path) -> str:
    """Return the type of a source, a key of SOURCE_TYPES; UnknownSource where it is none, or could be several."""
    if path.is_dir():
        return _of_folder(path)
    start = _start(path)
    source_type = _of_start(start) or _OF_SUFFIX.get(path.suffix.lower())
    if source_type is None:
        looks_like = recordio.describe(start, path.stat().st_size) if start else "an empty file"
        raise UnknownSource(f"{path} looks like {looks_like}, and no source: {_known()}")
    return source_type


def _of_folder(path: Path) -> str:
    entries = visible(path)
    if any(entry.name == "data.mdb" for entry in entries):
        return "lmdb"
    names = {entry.name for entry in entries if is_folder(entry)}
    for of_folders, needed in _FOLDERS:
        if needed <= names:
            return of_folders
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
        raise UnknownSource(f"{path} could be {could_be}: move the other away")
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
    return f"known are folders, LMDB and files named {' '.join(sorted(_OF_SUFFIX))} (docs/packing.md)"
