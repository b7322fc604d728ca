"""The augmentation that suits a training set, by the size and the number of its pictures."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.config import Data, Run
from mxtrain.config.components import augmentations
from mxtrain.config.values.sizes import Size
from mxtrain.data import image_fields
from mxtrain.data.augment import augment_choice, box_transforms
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.user.streams import Stream
from mxtrain.data.user.user_datasets import UserBatches, UserDataset


def in_memory(height: int, width: int, count: int) -> UserDataset:
    picture = np.zeros((height, width, 3), np.uint8)
    return UserDataset("own", [(picture, 0.0)] * count, record_of=image_fields.record_of)


def chosen(train: object, image_size: int | str = 224, task: str = "classification") -> str:
    data = Data(augment=augmentations.AUTO, image_size=image_size)
    return augment_choice.of_data(data, train, task).augment  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("height", "width", "count", "image_size", "augment"),
    [
        (32, 32, 50, 32, "pad_crop:pad=4"),
        (8, 8, 20_000, 16, "pad_crop:pad=2"),
        (28, 500, 50, "24x64", "pad_crop:pad=3"),
        (63, 63, 50, 224, "pad_crop:pad=28"),
        (64, 64, 9_999, 224, augment_choice.GENTLE),
        (64, 64, 10_000, 224, augmentations.IMAGENET),
    ],
)
def test_the_rule(height: int, width: int, count: int, image_size: int | str, augment: str) -> None:
    assert chosen(in_memory(height, width, count), image_size) == augment


def write(path: Path, payloads: list[bytes]) -> None:
    with RecordWriter(path) as writer:
        for key, payload in enumerate(payloads):
            writer.write(key, 0.0, payload)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_sides_of_encoded_pictures_without_those_that_are_damaged(suffix: str, tmp_path: Path) -> None:
    small, large = (
        cv2.imencode(suffix, np.full((height, 200, 3), 90, np.uint8))[1].tobytes() for height in (40, 90)
    )
    write(tmp_path / "mixed.rec", [small, large, b"", large, large[:20], small, small])
    assert chosen(open_records(tmp_path / "mixed.rec"), 64) == "pad_crop:pad=8"
    write(tmp_path / "large.rec", [small, large, large, b"none"])
    assert chosen(open_records(tmp_path / "large.rec")) == augment_choice.GENTLE
    write(tmp_path / "bad.rec", [b"none", b""])
    assert chosen(open_records(tmp_path / "bad.rec")) == augmentations.IMAGENET


def test_streams_by_their_first_pictures_and_loaders_of_which_nothing_is_known() -> None:
    def samples(side: int) -> list[tuple[np.ndarray, float]]:
        return [(np.zeros((side, side, 3), np.uint8), 0.0)] * 50

    for side, augment in ((16, "pad_crop:pad=28"), (100, augmentations.IMAGENET)):
        stream = Stream("own", lambda side=side: samples(side), image_fields.record_of, 48, 16, "--train", 8)
        assert chosen(stream) == augment
    assert chosen(UserBatches("own", [None] * 3, 16)) == augmentations.IMAGENET


def test_pictures_with_boxes_are_changed_as_ssds_are_learnt_whatever_their_size() -> None:
    for side in (8, 300):
        assert chosen(in_memory(side, side, 20), task="detection") == augmentations.OF_BOXES
    of_boxes = [
        box_transforms.build(text, Size(64, 64), is_training=True)
        for text in (augmentations.AUTO, augmentations.OF_BOXES)
    ]
    assert of_boxes[0] == of_boxes[1] and len(of_boxes[0].specs) == 4
    assert box_transforms.build(augmentations.AUTO, Size(64, 64), is_training=False).is_plain


def test_what_was_given_stays_and_who_has_a_default_of_its_own_keeps_it() -> None:
    few = in_memory(8, 8, 20)
    assert augment_choice.of_data(Data(augment="none"), few, "classification") == ("none", "")
    for task in ("classification", "multilabel", "detection"):
        assert Run.of(task=task).data.augment == augmentations.AUTO
    assert Run.of(task="regression").data.augment == "none"
    assert Run.of(task="own:Task").data.augment == augmentations.IMAGENET
