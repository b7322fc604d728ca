"""Samples of pictures with boxes: the same for any workers, also where several are mixed, and back to the originals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from examples import boxed_shapes
from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.boxes import box_checks, box_fields, box_labels
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.user.streams import Stream

NUM_CLASSES = len(boxed_shapes.SHAPES)
EVERYTHING = "mosaic:p=0.7+mixup+expand+iou_crop+scale_jitter+flip+colour_jitter+letterbox"


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: Any) -> Path:
    return boxed_shapes.write(tmp_path_factory.mktemp("shapes") / "train.rec", 40, seed=0, size=48)


def assembly_of(path: Path, augment: str, skip_bad: int = 0, is_training: bool = True) -> SampleAssembly:
    run = Run.of(task="detection", augment=augment, image_size="64x80")
    reader = box_fields.reader_of(run, {}, NUM_CLASSES, is_training)
    return SampleAssembly(open_records(path), reader, box_fields.fields_of(run), 7, skip_bad)


def loaded(assembly: SampleAssembly, micro_batch: int, **options: Any) -> list[Any]:
    """Every sample of an epoch, its boxes without what fills them up."""
    samples = np.arange(len(assembly.records))
    requests = [
        Request(0, number, 3, samples[start : start + micro_batch])
        for number, start in enumerate(range(0, len(samples), micro_batch))
    ]
    rows = []
    with Loader(assembly, requests, LoaderOptions(**options)) as loader:
        for batch in loader:
            data, boxes = batch.arrays["data"].copy(), batch.arrays["boxes"]
            rows += [(picture, own[own[:, 4] >= 0].copy()) for picture, own in zip(data, boxes)]
            loader.release(batch)
    return rows


def test_samples_are_the_same_for_any_workers_and_micro_batches(shapes: Path) -> None:
    assembly = assembly_of(shapes, EVERYTHING)
    ways = [
        loaded(assembly, 8, workers="1"),
        loaded(assembly, 5, workers="2"),
        loaded(assembly, 8, workers="2", loader="processes"),
    ]
    for one, *others in zip(*ways):
        for other in others:
            assert all(np.array_equal(*pair) for pair in zip(one, other))
    assert len({len(boxes) for _, boxes in ways[0]}) > 3
    again = loaded(assembly_of(shapes, "none"), 8)
    assert not all(np.array_equal(one[0], other[0]) for one, other in zip(ways[0], again))


@pytest.mark.parametrize("augment", ["none", "letterbox"])
def test_boxes_come_back_to_the_originals(tmp_path: Path, augment: str) -> None:
    truth, path = [], tmp_path / "val.rec"
    with RecordWriter(path) as writer:
        for key, (height, width) in enumerate([(50, 200), (300, 40), (96, 96), (1000, 1500)]):
            picture = np.zeros((height, width, 3), np.uint8)
            x1, y1, x2, y2 = width // 4, height // 5, width // 2, height // 2
            picture[y1:y2, x1:x2] = 255
            boxes = np.array([[x1, y1, x2, y2, 1, 0]], np.float32)
            label = box_labels.label_of(boxes, width, height)
            writer.write(key, label, cv2.imencode(".png", picture)[1].tobytes())
            truth.append(boxes[0, :4])
    assembly = assembly_of(path, augment, is_training=False)
    sizes = []
    for (picture, boxes), record in zip(loaded(assembly, 4), range(4)):
        rows, columns = np.nonzero(picture[0] > (picture.max() + picture[0, 0, 0]) / 2)
        seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        np.testing.assert_allclose(boxes[0, :4], seen, atol=1.01)
        sizes.append(assembly.reader(assembly.records.read(record), None, _row())["size"])
        offsets, factors = box_fields.in_originals(np.array(sizes[-1:]), assembly.reader.change)
        np.testing.assert_allclose((boxes[0, :4] - offsets[0]) * factors[0], truth[record], rtol=1e-5)
    assert [tuple(size) for size in sizes] == [(50, 200), (300, 40), (96, 96), (1000, 1500)]


def _row() -> Any:
    return {"data": np.zeros((3, 64, 80), np.float32)}


def test_a_damaged_record_that_is_drawn_names_itself_or_is_passed_over(shapes: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.rec"
    content = bytearray(shapes.read_bytes())
    bad = open_records(shapes)
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(64)
    damaged.write_bytes(content)
    for suffix in (".idx", ".classes.tsv"):
        damaged.with_suffix(suffix).write_bytes(shapes.with_suffix(suffix).read_bytes())
    assert len(bad) == 40
    with pytest.raises(DataError, match=r"damaged\.rec: record \d+"):
        loaded(assembly_of(damaged, "mosaic"), 8)
    passed = loaded(assembly_of(damaged, "mosaic", skip_bad=2), 8)
    assert len(passed) == 40
    again = loaded(assembly_of(damaged, "mosaic", skip_bad=2), 5)
    assert all(np.array_equal(*pair) for pair in zip(passed[0], again[0]))


def test_a_picture_that_is_none_counts_once_however_often_it_is_drawn(shapes: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "bad.rec", open_records(shapes)
    with RecordWriter(path) as writer:
        for position in range(len(whole)):
            key, label, payload = whole.read(position)
            writer.write(key, label, b"" if position == 20 else bytes(payload))
    assert len(loaded(assembly_of(path, "mosaic", skip_bad=1), 8)) == 40
    with pytest.raises(DataError, match=r"key 20"):
        loaded(assembly_of(path, "mosaic"), 8)


def test_what_is_learnt_ends_at_the_border_and_what_is_judged_does_not(tmp_path: Path) -> None:
    path = tmp_path / "odd.rec"
    boxes = [[-10, 10, 20, 30, 0, 0], [60, 60, 90, 90, 1, 0], [5, 5, 5, 9, 0, 0], [9, 9, 3, 3, 0, 0]]
    with RecordWriter(path) as writer:
        label = box_labels.label_of(np.array(boxes, np.float32), 50, 50)
        writer.write(0, label, cv2.imencode(".png", np.zeros((50, 50, 3), np.uint8))[1].tobytes())
    for augment in ("none", "letterbox", "flip:p=0", "flip:p=0+letterbox"):
        judged, learnt = (loaded(assembly_of(path, augment, 0, each), 1)[0][1] for each in (False, True))
        assert len(judged) == 4 and learnt[:, 4].tolist() == [0]
        assert learnt[0, 0] == (8 if "letterbox" in augment else 0)


def test_other_samples_are_not_drawn_from_a_stream() -> None:
    shown = iter(boxed_shapes.samples(100, seed=0, size=48))
    stream = Stream("mine:shapes", lambda: shown, box_fields.record_of, 20, batch_size=4)
    for augment in ("iou_crop+flip", "none"):
        run = Run.of(task="detection", augment=augment)
        box_checks.refuse_mixing(box_fields.transform_of(run, is_training=True), stream)
    for augment in ("mosaic", "mixup+flip"):
        run = Run.of(task="detection", augment=augment)
        with pytest.raises(UsageError, match="those of mine:shapes pass by once"):
            box_checks.refuse_mixing(box_fields.transform_of(run, is_training=True), stream)
