"""The source of WebDatasets: tars where the files of a sample follow each other, with one name up to the first dot.

A sample is one image (.jpg .png ...) and its label: .cls (a number or a name, as text), or .json with `cls`, `label`,
`class` or `labels`. The tar is scanned once, and images are read at their offsets.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from mxtrain.core.errors import DataError
from mxtrain.data.sources.item import IMAGE_SUFFIXES, Item, Source, files_in, read_at
from mxtrain.data.sources.labels import RawLabels, resolve_labels

_JSON_KEYS = ("cls", "label", "class", "labels")


class _Member(NamedTuple):
    sample: str
    suffix: str
    offset: int
    num_bytes: int


def read_tars(source: Path, multi_label: bool, unlabelled: bool = False) -> Source:
    """Scan a .tar, or all in a folder; DataError where a sample has no image, or no label unless it is `unlabelled`."""
    paths = files_in(source, (".tar",))
    names: list[str] = []
    places: list[tuple[int, int, int]] = []
    raw_labels: list[RawLabels] = []
    for number, path in enumerate(paths):
        for sample, members in _samples(path):
            image = _image(path, sample, members)
            names.append(f"{path.name}/{sample}")
            places.append((number, image.offset, image.num_bytes))
            raw_labels.append((0,) if unlabelled else _label(path, sample, members))
    labels, class_names = resolve_labels(raw_labels, source, multi_label)
    items = [Item(*parts) for parts in zip(names, labels, places)]

    def read(item: Item) -> bytes:
        number, offset, num_bytes = item.location
        return read_at(paths[number], offset, num_bytes)

    return Source(items, read, class_names, files=paths)


def _samples(path: Path) -> Iterator[tuple[str, list[_Member]]]:
    together: list[_Member] = []
    for member in _members(path):
        if together and together[0].sample != member.sample:
            yield together[0].sample, together
            together = []
        together.append(member)
    if together:
        yield together[0].sample, together


def _members(path: Path) -> Iterator[_Member]:
    try:
        with tarfile.open(path, "r:") as tar:
            remembering: Any = tar
            for entry in tar:
                remembering.members = []  # else all stay in memory
                folder, slash, name = entry.name.rpartition("/")
                stem, dot, suffix = name.partition(".")
                if entry.isfile() and stem and dot:
                    yield _Member(folder + slash + stem, suffix.lower(), entry.offset_data, entry.size)
    except tarfile.TarError as error:
        raise DataError(
            f"{path} is no plain tar, or a damaged one ({error}): unpack or copy it again"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def _last(member: _Member) -> str:
    return member.suffix.rpartition(".")[2]


def _image(path: Path, sample: str, members: list[_Member]) -> _Member:
    """Return the only image of the plainest name, as 7.png before 7.depth.png."""
    images = [member for member in members if "." + _last(member) in IMAGE_SUFFIXES]
    if not images:
        raise DataError(f"{path}: sample {sample!r} has no image, only {[m.suffix for m in members]}")
    fewest = min(member.suffix.count(".") for member in images)
    plainest = [member for member in images if member.suffix.count(".") == fewest]
    if len(plainest) > 1:
        raise DataError(
            f"{path}: sample {sample!r} has several images, {[m.suffix for m in plainest]}: give one of them the "
            "plainest name, as in 7.png beside 7.depth.png"
        )
    return plainest[0]


def _label(path: Path, sample: str, members: list[_Member]) -> RawLabels:
    for member in sorted(members, key=lambda each: each.suffix):  # .cls before .json
        if member.suffix in ("cls", "json"):
            data = read_at(path, member.offset, member.num_bytes)
            try:
                label = data.decode().strip() if member.suffix == "cls" else _of_json(json.loads(data))
            except ValueError as error:
                raise DataError(f"{path}: {sample}.{member.suffix} is damaged ({error})") from None
            if label is not None:
                return tuple(label) if isinstance(label, list) else (label,)
    raise DataError(f"{path}: sample {sample!r} has no label: it takes .cls, or .json with {_JSON_KEYS[0]!r}")


def _of_json(value: Any) -> Any:
    label = (
        next((value[key] for key in _JSON_KEYS if key in value), None) if isinstance(value, dict) else None
    )
    for one in label if isinstance(label, list) else [label]:
        if not isinstance(one, (int, float, str, type(None))):
            raise ValueError(f"its label is {one!r}")
    return label
