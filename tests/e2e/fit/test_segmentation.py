"""Masks are learnt; what cannot be learnt is refused in a line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from examples import masked_shapes
from mxtrain.core.errors import DATA, USAGE
from mxtrain.data.masks import mask_format
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.commands import Command
from tests.support.runs import assert_same_end, records

FAST = "--task segmentation --model fastscnn_citys --image-size 64 --optimizer adam --lr 0.003"
OWN = "tests.support.nets.own_segmenter"
SHORT = "--batch-size 16 --threads 1 --log none"
NUM_LEARNT = 8  # pictures, and no others


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    return masked_shapes.write(folder / "shapes.rec", 32, seed=0)


@pytest.mark.timeout(250)
def test_masks_of_some_pictures_are_learnt(shapes: Path, tmp_path: Path, command: Command) -> None:
    flags = f"{FAST} {SHORT} --image-size 80 --batch-size {NUM_LEARNT} --overfit 1 --max-steps 32 --epochs 32"
    done = command("mxtrain.fit", *flags.split(), "--train", shapes, "--out", tmp_path, timeout=200)
    assert done.returncode == 0, done.stderr
    judged = [each for each in records(tmp_path) if each["kind"] == "eval"]
    assert max(each["val_miou"] for each in judged) > 0.85 > judged[0]["val_miou"]

    line = [tmp_path, shapes, "--draw", tmp_path / "drawn", "--masks", tmp_path / "masks", "--out"]
    done = command("mxtrain.predict", *line, tmp_path / "out.json", "--format", "coco")
    assert done.returncode == 0, done.stderr
    truth = open_records(shapes)
    written = sorted((tmp_path / "masks").iterdir())
    assert len(list((tmp_path / "drawn").iterdir())) == len(written) == len(truth)
    overlap = 0.0
    answers = json.loads((tmp_path / "out.json").read_text())
    for key in range(NUM_LEARNT):
        _, mask = mask_format.split(truth.read(key).payload)
        answered = np.asarray(Image.open(tmp_path / "masks" / f"shapes.rec_{key}.png"))
        assert answered.shape == mask.shape
        counts = mask != 255
        overlap += float((answered == mask)[counts].mean())
        for each in (each for each in answers if each["image_id"] == key):
            size, runs = each["segmentation"]["size"], each["segmentation"]["counts"]
            inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(size[::-1]).T
            assert size == list(mask.shape)
            assert np.array_equal(inside, answered == each["category_id"] - 1)
    assert overlap / NUM_LEARNT > 0.9
    done = command("mxtrain.predict", tmp_path, shapes, "--format", "csv")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert {row["class"] for row in rows} == set(masked_shapes.CLASSES)
    assert sum(float(row["share"]) for row in rows) == pytest.approx(len(truth))


@pytest.mark.slow
def test_devices_change_no_bit(shapes: Path, tmp_path: Path, command: Command) -> None:
    for devices in ("cpu", "cpu:0,1"):
        flags = f"{FAST} {SHORT} --micro-batch 4 --devices {devices} --epochs 2"
        done = command("mxtrain.fit", *flags.split(), "--train", shapes, "--out", tmp_path / devices)
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "cpu:0,1", tmp_path / "cpu")


@pytest.mark.slow
def test_a_net_without_auxiliary_head_is_used_as_it_was_trained(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    flags = [*FAST.split(), *SHORT.split(), "--epochs", "1", "--aux-weight", "0", "--val", shapes]
    done = command("mxtrain.fit", *flags, "--train", shapes, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    *_, last = [each for each in records(tmp_path) if each["kind"] == "eval"]
    judged = command("mxtrain.evaluate", tmp_path, "--json")
    assert judged.returncode == 0, judged.stderr
    assert json.loads(judged.stdout)["val_miou"] == last["val_miou"]

    # In the originals' sizes what `predict --masks` writes is judged.
    done = command("mxtrain.predict", tmp_path, shapes, "--masks", tmp_path / "masks", "--quiet")
    assert done.returncode == 0, done.stderr
    hits, unions, truth = np.zeros(4), np.zeros(4), open_records(shapes)
    for key in range(len(truth)):
        _, mask = mask_format.split(truth.read(key).payload)
        answered = np.asarray(Image.open(tmp_path / "masks" / f"shapes.rec_{key}.png"))
        for number in range(4):
            is_class, is_answer = mask[mask != 255] == number, answered[mask != 255] == number
            hits[number] += (is_class & is_answer).sum()
            unions[number] += (is_class | is_answer).sum()
    judged = command("mxtrain.evaluate", tmp_path, "--json", "--masks-at", "original")
    assert judged.returncode == 0, judged.stderr
    found = json.loads(judged.stdout)
    assert found["masks_at"] == "original" and found["val_miou"] != last["val_miou"]
    assert found["val_miou"] == pytest.approx(np.mean(hits / unions), abs=1e-12)
    assert found["val_loss"] == last["val_loss"]


def test_a_net_of_ones_own_learns_masks(shapes: Path, tmp_path: Path, command: Command) -> None:
    flags = [*FAST.split(), *SHORT.split(), "--model", f"{OWN}:quarter", "--epochs", "2", "--val", shapes]
    done = command("mxtrain.fit", *flags, "--train", shapes, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    first, *_, last = [each["loss"] for each in records(tmp_path) if each["kind"] == "train"]
    assert last < first
    told = command("mxtrain.predict", tmp_path, shapes)
    assert told.returncode == 0 and "background" in told.stdout, told.stderr


def test_pictures_without_masks_are_refused_at_once(shapes: Path, tmp_path: Path, command: Command) -> None:
    path, source = tmp_path / "plain.rec", open_records(shapes)
    with RecordWriter(path) as writer:
        for key in range(4):
            writer.write(key, 0.0, bytes(mask_format.split(source.read(key).payload)[0]))
    classes_path(path).write_text("".join(f"{name}\n" for name in masked_shapes.CLASSES))
    done = command(
        "mxtrain.fit", *FAST.split(), "--skip-bad", "9", "--train", path, "--out", tmp_path / "run"
    )
    assert done.returncode == DATA
    assert f"{path}: record 0" in done.stderr.splitlines()[-1] and "it has no mask" in done.stderr


@pytest.mark.parametrize(
    "flags, words",
    [
        ("--model icnet_resnet50_citys", "is not among the nets of pixels"),
        ("--model resnet18_v1b", "--model resnet18_v1b goes with"),
        ("--loss focal", "--loss"),
        ("--aux-weight -1", "--aux-weight -1"),
        ("--augment mosaic", "mosaic"),
        ("--mixup 0.2", "--mixup"),
        ("--channels 1", "--channels goes with"),
        (f"--model {OWN}:of_pictures", "it has to give (pictures, 4, height, width)"),
        ("--class-weights 1,2", "2 numbers for 4 classes"),
        ("--num-classes 2", "has 4 classes, but --num-classes is 2"),
    ],
)
def test_flags_that_learn_no_masks_are_refused(
    flags: str, words: str, shapes: Path, tmp_path: Path, command: Command
) -> None:
    line = [*FAST.split(), *flags.split(), "--train", shapes, "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *line)
    assert done.returncode in (USAGE, DATA)
    assert words in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def test_a_net_of_pixels_goes_with_no_other_task(shapes: Path, tmp_path: Path, command: Command) -> None:
    done = command("mxtrain.fit", "--model", "fcn_resnet50_voc", "--train", shapes, "--out", tmp_path)
    assert done.returncode == USAGE and "goes with --task segmentation" in done.stderr
    done = command("mxtrain.fit", "--aux-weight", "0.1", "--train", shapes, "--out", tmp_path)
    assert done.returncode == USAGE and "--aux-weight goes with --task segmentation" in done.stderr
