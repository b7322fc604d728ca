"""Pictures of shapes with their masks, and what an answer reaches that is the same for every picture."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from examples import masked_shapes
from mxtrain.data.masks import mask_format
from mxtrain.data.records.record_file import open_records
from mxtrain.tasks.metrics.segmentation_report import counts_of, numbers_and_record


def write_sets(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec and val.rec, and one picture as one.png."""
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        masked_shapes.write(folder / f"{name}.rec", count, seed)
    picture, _ = masked_shapes.sample(np.random.default_rng(2))
    cv2.imwrite(str(folder / "one.png"), picture[:, :, ::-1])


def constant_miou(folder: Path) -> float:
    """Of the class that each pixel has most often in the training set."""
    train, val = (_masks(folder / f"{name}.rec") for name in ("train", "val"))
    num_classes = len(masked_shapes.CLASSES)
    most = np.stack([(train == number).sum(axis=0) for number in range(num_classes)]).argmax(axis=0)
    numbers, _ = numbers_and_record(counts_of(val, np.broadcast_to(most, val.shape), num_classes))
    return numbers["miou"]


def _masks(path: Path) -> np.ndarray:
    records = open_records(path)
    return np.stack([mask_format.split(records.read(place).payload)[1] for place in range(len(records))])


def change_of_mask(change):
    """Return the change of a record that changes its mask."""

    def changed(label, payload):
        picture, mask = mask_format.split(payload)
        return label, mask_format.join(bytes(picture), change(mask.copy()))

    return changed


def without_mask(label, payload):
    return label, bytes(mask_format.picture_of(payload))


def longer_than_there_is(label, payload):
    return label, bytes(payload[:-12]) + (1 << 30).to_bytes(4, "little") + mask_format.MAGIC


def no_png(label, payload):
    picture = bytes(mask_format.picture_of(payload))
    return label, picture + b"\x89PNG123" + (7).to_bytes(4, "little") + mask_format.MAGIC


def of_unknown_class(mask: np.ndarray) -> np.ndarray:
    mask[3, 5] = 9
    return mask


def smaller(mask: np.ndarray) -> np.ndarray:
    return mask[:-2]
