"""Contact sheets: pictures of a .rec side by side, with class and key below each, or pairs of copies."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Iterable

import numpy as np
import numpy.typing as npt

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.core.opencv import cv2
from mxtrain.data.arrays.array_fields import sidecar_path
from mxtrain.data.augment import mask_transforms
from mxtrain.data.boxes import box_drawing, box_labels
from mxtrain.data.decode import decoding
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.fields import Array
from mxtrain.data.labels.label_checks import are_yes_or_no
from mxtrain.data.masks import mask_drawing, mask_format
from mxtrain.data.packing.pictures import fingerprints
from mxtrain.data.records.record_file import RecordFile, open_records
from mxtrain.data.records.recordio import Floats, Ints, Label
from mxtrain.data.text.tokens import tokens_path

from . import drawing
from .checking import boxes, copies_list
from .checking.copies_list import ListedPair, ListedPicture
from .drawing import Canvas

_TILE, _GAP, _CAPTION, _MOST_COLUMNS = 144, 10, 38, 8
_FRAME_COLOUR = (225, 225, 225)


def show(path: Path, out: Path, num: int, class_name: str | None, seed: int) -> int:
    """Write a sheet of `num` pictures drawn at random, of one class if one is named; return how many it has."""
    records = open_records(path)
    if tokens_path(path).exists():
        raise UsageError(f"{path} holds token ids, not pictures: there is nothing to show")
    if sidecar_path(path).exists():
        raise UsageError(f"{path} holds arrays, not pictures: there is nothing to show")
    positions = _choose(records, num, class_name, seed).tolist()
    has_boxes = _has_boxes(records)
    _draw((_tile(records, position, "key", has_boxes) for position in positions), len(positions), out)
    return len(positions)


def show_copies(path: Path, out: Path, num: int) -> tuple[int, int]:
    """Write a sheet of the first `num` pairs of a list of copies; return how many it has, and how many are listed."""
    pairs = [pair for pair in copies_list.read(path) if pair.pictures]
    if not pairs:
        raise DataError(f"{path} lists no pairs with their .rec and key: there is nothing to show")
    shown = pairs[:num]
    opened = {path: open_records(path) for path in {one.path for pair in shown for one in pair.pictures}}

    def tile(pair: ListedPair, one: ListedPicture) -> Canvas:
        records = opened[one.path]
        return _tile(records, _position(records, one, pair.where), one.path.stem)

    between = np.full((_TILE + _CAPTION, _GAP, 3), 255, np.uint8)
    between[:_TILE] = _FRAME_COLOUR  # it joins the two
    tiles = (
        np.hstack([tile(pair, left), between, tile(pair, right)])
        for pair in shown
        for left, right in [pair.pictures]
    )
    _draw(tiles, len(shown), out, 2 * _TILE + _GAP)
    return len(shown), len(pairs)


def _position(records: RecordFile, one: ListedPicture, where: str) -> int:
    """Return the position of a listed picture; DataError if it is no longer in its .rec."""
    for position in np.flatnonzero(records.keys == one.key).tolist():
        if fingerprints.digest_text(fingerprints.digest(records.read(position).payload)) == one.digest:
            return int(position)
    raise DataError(
        f"{where}: {records.path} has no such picture with key {one.key}; if it was packed again, check it again"
    )


def _draw(tiles: Iterable[Canvas], num_tiles: int, out: Path, tile_width: int = _TILE) -> None:
    num_columns = min(num_tiles, _MOST_COLUMNS * _TILE // tile_width)
    num_rows = -(-num_tiles // num_columns)
    height, width = _TILE + _CAPTION + _GAP, tile_width + _GAP
    sheet = drawing.blank(num_rows * height + _GAP, num_columns * width + _GAP)
    for place, tile in enumerate(tiles):
        row, column = divmod(place, num_columns)
        top, left = _GAP + row * height, _GAP + column * width
        sheet[top : top + height - _GAP, left : left + tile_width] = tile
    drawing.save_png(sheet, out)


def _choose(records: RecordFile, num: int, class_name: str | None, seed: int) -> Ints:
    """Draw positions at random, and return them sorted by class."""
    positions = np.arange(len(records))
    if _has_boxes(records):
        return _choose_boxed(records, num, class_name, seed)
    labels = records.labels()
    if class_name is not None:
        label = _label_of(records, class_name)
        is_in = _has_class(labels, label, len(records.class_names or ()))
        positions = np.flatnonzero(is_in)
        if not len(positions):
            raise DataError(f"{records.path}: has no picture of class '{class_name}'")
    drawn = np.random.default_rng(seed).permutation(positions)[:num]
    first_label = labels[drawn] if labels.ndim == 1 else labels[drawn, 0]
    by_class: Ints = drawn[np.lexsort((drawn, first_label))]
    return by_class


def _has_boxes(records: RecordFile) -> bool:
    labels = records.label_rows()
    rows = [float(label[0]) if len(label) == 1 else label for label in labels]
    return boxes.are_boxes(rows, len(records.class_names or ()))


def _choose_boxed(records: RecordFile, num: int, class_name: str | None, seed: int) -> Ints:
    """Draw positions of pictures with boxes at random, with a box of a class if one is named; return them in order."""
    positions = np.arange(len(records))
    if class_name is not None:
        which = _label_of(records, class_name)
        is_in = [which in boxes.count([label]) for label in records.label_rows()]
        positions = np.flatnonzero(is_in)
        if not len(positions):
            raise DataError(f"{records.path}: has no picture with a box of class '{class_name}'")
    drawn: Ints = np.sort(np.random.default_rng(seed).permutation(positions)[:num])
    return drawn


def _with_boxes(records: RecordFile, label: Label, pixels: Canvas) -> Canvas:
    """Return a picture with its boxes drawn, in RGB as it came."""
    height, width = pixels.shape[:2]
    rows = box_labels.boxes_of(label, width, height)
    numbers = rows[:, 4].astype(int).tolist()
    names = [_class_name(records, number) for number in numbers]
    return box_drawing.drawn(pixels, rows[:, :4], numbers, names)


def _has_class(labels: Floats, label: int, num_names: int) -> npt.NDArray[np.bool_]:
    """Return which records are of a class: by its number, or by a 1 at its place where each class has a label."""
    if labels.ndim == 1:
        return np.asarray(labels == label)
    if labels.shape[1] != num_names or label >= num_names:
        return np.asarray((labels == label).any(1))
    return np.asarray(labels[:, label] > 0) & are_yes_or_no(labels)  # numbers to predict are of no class


def _label_of(records: RecordFile, class_name: str) -> int:
    names = records.class_names or []
    if class_name in names:
        return names.index(class_name)
    number = plain_text.parse_whole_number(class_name)
    if number is not None:
        return number
    raise UsageError(f"--class: {records.path} has no class '{class_name}'{nearest(class_name, names)}")


def _tile(records: RecordFile, position: int, before_key: str, has_boxes: bool = False) -> Canvas:
    key = int(records.keys[position])
    source = records.source_names().of(key)
    named = f"{before_key} {key}" + (f": {source.rpartition('/')[2]}" if source else "")
    tile = drawing.blank(_TILE + _CAPTION, _TILE)
    tile[:_TILE] = _FRAME_COLOUR
    try:
        record = records.read(position)
        payload, mask = record.payload, None
        if mask_format.has_mask(payload):
            payload, mask = mask_format.split(payload)
        pixels = decoding.decode(payload)
        if mask is not None:
            num_classes = len(records.class_names or ()) or mask_format.MOST_CLASSES
            pixels = mask_drawing.drawn(pixels, mask_transforms.nearest(mask, *pixels.shape[:2]), num_classes)
        if has_boxes:
            pixels = _with_boxes(records, record.label, pixels)
        picture = _fit(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
    except (BadPicture, DataError, ValueError):
        drawing.write(tile, "damaged", left=8, bottom=_TILE // 2, size=0.6)
        drawing.write(tile, named, left=2, bottom=_TILE + 32, size=0.42, width=_TILE)
        return tile
    top, left = (_TILE - picture.shape[0]) // 2, (_TILE - picture.shape[1]) // 2
    tile[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    words = _words(records, record.label, mask, has_boxes)
    drawing.write(tile, words, left=2, bottom=_TILE + 15, size=0.42, width=_TILE)
    drawing.write(tile, named, left=2, bottom=_TILE + 32, size=0.42, width=_TILE)
    return tile


def _words(records: RecordFile, label: Label, mask: Array | None, has_boxes: bool) -> str:
    """Return what a record has, in words: the classes of its mask, its boxes, or its label."""
    if mask is not None:
        numbers = [number for number in np.unique(mask).tolist() if number != mask_format.IGNORED]
        return " ".join(_class_name(records, number) for number in numbers)
    return _boxes_in_words(records, label) if has_boxes else caption(records, label)


def _fit(picture: Canvas) -> Canvas:
    """Scale a picture to a tile; small ones grow by whole factors, so that each pixel stays a square."""
    factor = _TILE / max(picture.shape[:2])
    if factor >= 1:
        return picture.repeat(int(factor), axis=0).repeat(int(factor), axis=1)
    height, width = (max(round(side * factor), 1) for side in picture.shape[:2])
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)


def caption(records: RecordFile, label: Label) -> str:
    """Return the classes of a record, or its numbers to predict with their names."""
    names = records.class_names or []
    if isinstance(label, float) or len(label) != len(names):
        return " ".join(_class_name(records, number) for number in np.ravel(label).tolist())
    if are_yes_or_no(label):
        return " ".join(name for name, number in zip(names, label) if number > 0)
    return ", ".join(f"{name} {number:g}" for name, number in zip(names, label))


def _boxes_in_words(records: RecordFile, label: Label) -> str:
    counts = collections.Counter(box_labels.boxes_of(label, 1, 1)[:, 4].tolist())
    words = [f"{count} {_class_name(records, number)}" for number, count in sorted(counts.items())]
    return ", ".join(words) or "no box"


def _class_name(records: RecordFile, number: float) -> str:
    names = records.class_names or []
    return names[int(number)] if number in range(len(names)) else f"{number:g}"
