"""Detectors learn boxes; what cannot be learnt is refused in a line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from examples import boxed_shapes
from mxtrain.config.components import augmentations
from mxtrain.core.errors import DATA, USAGE
from mxtrain.data.boxes import box_labels
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.commands import Command
from tests.support.runs import assert_same_end, records

SSD = "--task detection --model ssd_300_mobilenet0.25_voc --image-size 96 --optimizer adam --lr 0.005"
SHORT = "--batch-size 16 --threads 1 --log none"
NUM_LEARNT = 8  # pictures, and no others


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    return boxed_shapes.write(folder / "shapes.rec", 32, seed=0)


@pytest.mark.timeout(250)
def test_boxes_of_some_pictures_are_learnt(shapes: Path, tmp_path: Path, command: Command) -> None:
    flags = f"{SSD} {SHORT} --batch-size {NUM_LEARNT} --overfit 1 --max-steps 40 --epochs 40"
    done = command("mxtrain.fit", *flags.split(), "--train", shapes, "--out", tmp_path, timeout=200)
    assert done.returncode == 0, done.stderr
    judged = [each for each in records(tmp_path) if each["kind"] == "eval"]
    assert max(each["val_map_50"] for each in judged) > 0.9 > judged[0]["val_map_50"]
    # Labels of what is predicted may be any.
    with RecordWriter(tmp_path / "classes.rec") as writer:
        key, _, payload = open_records(shapes).read(1)
        writer.write(key, 3.0, bytes(payload))
    told = command("mxtrain.predict", tmp_path, tmp_path / "classes.rec", "--json")
    assert told.returncode == 0 and "detections" in json.loads(told.stdout), told.stderr

    line = [
        tmp_path,
        shapes,
        "--format",
        "coco",
        "--out",
        tmp_path / "out.json",
        "--draw",
        tmp_path / "drawn",
    ]
    done = command("mxtrain.predict", *line)
    assert done.returncode == 0, done.stderr
    likely = [each for each in json.loads((tmp_path / "out.json").read_text()) if each["score"] > 0.5]
    truth = open_records(shapes)
    right = 0
    for each in likely:
        rows = box_labels.boxes_of(truth.read(each["image_id"]).label, boxed_shapes.SIZE, boxed_shapes.SIZE)
        x, y, wide, high = each["bbox"]
        apart = np.abs(rows[:, :4] - [x, y, x + wide, y + high]).max(axis=1)
        right += (apart[rows[:, 4] == each["category_id"] - 1] < 20).any()
    assert right >= NUM_LEARNT  # each has a shape and more
    assert len(list((tmp_path / "drawn").iterdir())) == len(truth)


@pytest.mark.slow  # tests/tasks/test_runs.py has detection on three devices
def test_devices_change_no_bit(shapes: Path, tmp_path: Path, command: Command) -> None:
    for devices in ("cpu", "cpu:0,1"):
        flags = f"{SSD} {SHORT} --micro-batch 4 --devices {devices} --epochs 1"
        done = command("mxtrain.fit", *flags.split(), "--train", shapes, "--out", tmp_path / devices)
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "cpu:0,1", tmp_path / "cpu")
    told = command("mxtrain.evaluate", tmp_path / "cpu", "--val", shapes, "--masks-at", "original")
    assert told.returncode == USAGE and "task, detection, has no masks" in told.stderr


@pytest.mark.slow  # in small: tests/engine/data/test_augment_choice.py
def test_pictures_are_augmented_by_themselves_but_not_those_of_a_run_that_began_without(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    """A run of a version whose detectors had no augmentation by themselves recorded `none`, and goes on with that."""
    line = ["mxtrain.fit", *f"{SSD} {SHORT} --schedule constant".split(), "--train", shapes, "--out"]
    for name, augment, epochs in (("before", ["--augment", "none"], 1), ("before", [], 2), ("now", [], 1)):
        done = command(*line, tmp_path / name, "--epochs", epochs, *augment)
        assert done.returncode == 0, done.stderr
    whole = command(*line, tmp_path / "whole", "--epochs", "2", "--augment", "none")
    assert whole.returncode == 0, whole.stderr
    assert_same_end(tmp_path / "before", tmp_path / "whole")
    assert f"augment: {augmentations.OF_BOXES}\n" in (tmp_path / "now" / "config.yaml").read_text()


def written_again(shapes: Path, path: Path, change) -> Path:
    """Write the pictures again, with their labels as `change` makes them of rows of class and shares."""
    with RecordWriter(path) as writer:
        for position in range(len(source := open_records(shapes))):
            key, label, payload = source.read(position)
            rows = box_labels.boxes_of(label, 1, 1)
            writer.write(key, box_labels.label_of(change(rows.copy()), 1, 1), bytes(payload))
    classes_path(path).write_text("".join(f"{shape}\n" for shape in boxed_shapes.SHAPES))
    return path


def in_pixels(rows: np.ndarray) -> np.ndarray:
    rows[:, :4] *= boxed_shapes.SIZE
    return rows


def from_one(rows: np.ndarray) -> np.ndarray:
    rows[:, 4] += 1
    return rows


def without(rows: np.ndarray) -> np.ndarray:
    return rows[:0]


@pytest.mark.parametrize(
    "change, words",
    [
        (in_pixels, "are in pixels, and have to be shares of its width and height"),
        (from_one, "a box has class 3, but there are 3 classes, numbered from 0; no box has class 0"),
        (without, "has no box in any picture"),
    ],
)
def test_what_would_give_a_map_of_0_is_refused(
    change, words: str, shapes: Path, tmp_path: Path, command: Command
) -> None:
    path = written_again(shapes, tmp_path / "changed.rec", change)
    done = command("mxtrain.fit", *SSD.split(), "--train", path, "--out", tmp_path / "run")
    assert done.returncode == DATA
    (line,) = done.stderr.splitlines()[-1:]
    assert str(path) in line and words in line


@pytest.mark.parametrize(
    "flags, words",
    [
        ("--model faster_rcnn_resnet50_v1b_voc", "is a net of two stages"),
        ("--model resnet18_v1b", "--model resnet18_v1b goes with"),
        ("--loss focal", "--loss"),
        (
            "--image-size 96 --model ssd_300_vgg16_atrous_voc",
            "is too small for --model ssd_300_vgg16_atrous_voc",
        ),
        ("--image-size 90 --model center_net_resnet18_v1b_voc", "takes multiples of 32"),
        (
            "--image-size 96 --model center_net_dla34_dcnv2_voc",
            "on GPUs alone; give --devices gpu, or center_net_dla34",
        ),
        ("--mixup 0.2", "--mixup"),
    ],
)
def test_flags_that_make_no_detector_are_refused(
    flags: str, words: str, shapes: Path, tmp_path: Path, command: Command
) -> None:
    line = [*SSD.split(), *flags.split(), "--train", shapes, "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *line)
    assert done.returncode == USAGE
    assert words in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def test_a_detector_goes_with_no_other_task(shapes: Path, tmp_path: Path, command: Command) -> None:
    done = command("mxtrain.fit", "--model", "yolo3_darknet53_voc", "--train", shapes, "--out", tmp_path)
    assert done.returncode == USAGE and "goes with --task detection" in done.stderr
