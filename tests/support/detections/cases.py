"""Random detections and boxes of a few pictures, of each kind that tells metrics of detection apart.

`python -m tests.support.detections.reference` has pycocotools judge them; change no draw here without it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mxtrain.config.values.sizes import Size
from mxtrain.data.augment.box_transforms import BoxTransform
from mxtrain.tasks.metrics.detection_report import DetectionReport

NUM_CASES = 1000
KINDS = ("plain", "one class", "difficult and crowds", "crowds", "without detections", "ties")
SIDE = 100  # of pictures, which nothing is scaled from


class Case(NamedTuple):
    """Boxes (pictures, n, 6) and detections (pictures, m, 6) as a task has them, padded with -1."""

    num_classes: int
    boxes: Any
    detections: Any


class Output:
    """An output of a net that is an array of NumPy's."""

    def __init__(self, values: Any):
        self.asnumpy = lambda: values


def case(number: int) -> Case:
    """Return a case; every fiftieth has hundreds of boxes and detections a picture, more than 100 of a class."""
    rng = np.random.default_rng(number)
    kind, is_large = KINDS[number % len(KINDS)], number % 50 == 0
    num_classes = 1 if kind == "one class" else int(rng.integers(1, 6))
    num_pictures, side = int(rng.integers(1, 6)), [64, 200, 500][int(rng.integers(3))]
    most = [int(rng.integers(100, 400)) if is_large else int(rng.integers(1, 20)) for _ in range(2)]
    boxes, detections = (np.full((num_pictures, size, 6), -1, np.float32) for size in most)
    for own, answers in zip(boxes, detections):
        count, answered = (size if is_large else int(rng.integers(0, size + 1)) for size in most)
        own[:count] = _boxes(rng, count, side, num_classes, kind)
        if kind != "without detections" or rng.random() < 0.5:
            for row in answers[:answered]:
                score = rng.integers(1, 5) / 4 if kind == "ties" else rng.random()
                row[:] = _answer(rng, own[:count], side, num_classes, score)
    return Case(num_classes, boxes, detections)


def judged(of: Case) -> dict[str, float]:
    """Return the numbers of a case that comes in two micro-batches."""
    report = DetectionReport(of.num_classes, BoxTransform((), Size(SIDE, SIDE), is_letterboxed=False))
    sizes = np.full((len(of.boxes), 2), SIDE, np.float32)
    half = 1 + len(sizes) // 2
    states = [
        report.state(Output(of.detections[part]), {"boxes": of.boxes[part], "size": sizes[part]})
        for part in (slice(0, half), slice(half, None))
    ]
    return report.judge(states)[0]


def _boxes(rng: Any, count: int, side: int, num_classes: int, kind: str) -> Any:
    corners = rng.integers(0, side, (count, 2))
    flags = {"difficult and crowds": [0, 0, 0, 1, 2], "crowds": [0, 0, 2]}.get(kind, [0])
    ends = corners + rng.integers(1, side // 2 + 1, (count, 2))
    classes, flag = rng.integers(0, num_classes, count), rng.choice(flags, count)
    return np.column_stack([corners, ends, classes, flag])


def _answer(rng: Any, own: Any, side: int, num_classes: int, score: float) -> Any:
    """Return a detection near a box, or anywhere."""
    if len(own) and rng.random() < 0.7:
        box = own[int(rng.integers(len(own)))]
        moved = box[:4] + rng.integers(-side // 10, side // 10 + 1, 4) * rng.integers(0, 2)
        low, high = np.minimum(moved[:2], moved[2:]), np.maximum(moved[:2], moved[2:])
        number = box[4] if rng.random() < 0.8 else rng.integers(num_classes)
        return np.concatenate([[number, score], low, np.maximum(high, low + 1)])
    low = rng.integers(0, side, 2)
    return np.concatenate([[rng.integers(num_classes), score], low, low + rng.integers(1, side // 2 + 1, 2)])
