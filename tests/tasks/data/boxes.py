"""Pictures of shapes with their boxes, and what a detector reaches that answers the same to every picture."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from examples import boxed_shapes
from mxtrain.config.values.sizes import Size
from mxtrain.data.augment.box_transforms import BoxTransform
from mxtrain.data.boxes import box_labels
from mxtrain.data.records.record_file import open_records

SIDE = boxed_shapes.SIZE


def write_sets(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec and val.rec, and one picture as one.png."""
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        boxed_shapes.write(folder / f"{name}.rec", count, seed)
    (picture, _), *_ = boxed_shapes.samples(1, seed=2)
    cv2.imwrite(str(folder / "one.png"), picture[:, :, ::-1])


def constant_map(folder: Path) -> float:
    """Of boxes of the training set, each as likely as there are boxes of its class about there."""
    from mxtrain.models.detectors import box_arrays
    from mxtrain.runtime import mx
    from mxtrain.tasks.metrics.detection_report import DetectionReport

    train, val = (_boxes(folder / f"{name}.rec") for name in ("train", "val"))
    known = np.concatenate(train)
    chosen = known[:100]
    same = (box_arrays.overlaps(chosen, known) > 0.5) & (chosen[:, None, 4] == known[None, :, 4])
    answer = np.hstack([chosen[:, 4:5], same.mean(axis=1, keepdims=True), chosen[:, :4]])
    longest = max(map(len, val))
    padded = [np.pad(each, ((0, longest - len(each)), (0, 0)), constant_values=-1) for each in val]
    arrays = {"boxes": np.stack(padded), "size": np.full((len(val), 2), SIDE, np.float32)}
    report = DetectionReport(
        len(boxed_shapes.SHAPES), BoxTransform((), Size(SIDE, SIDE), is_letterboxed=False)
    )
    output = mx.nd.array(np.broadcast_to(answer, (len(val), *answer.shape)))
    numbers, _ = report.judge([report.state(output, arrays)])
    return float(numbers["map_50"])


def _boxes(path: Path) -> list[np.ndarray]:
    return [box_labels.boxes_of(label, SIDE, SIDE) for label in open_records(path).label_rows()]
