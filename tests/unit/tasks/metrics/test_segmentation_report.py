"""Overlaps of masks are those of a plain loop, in any parts and order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mxtrain.data.masks import mask_format
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.tasks.metrics.segmentation_report import ReportOfOriginals, SegmentationReport


class Answer:
    def __init__(self, classes: np.ndarray):
        self._classes = classes

    def asnumpy(self) -> np.ndarray:
        return self._classes


def plain(masks: np.ndarray, answers: np.ndarray, num_classes: int) -> dict[str, float]:
    """Return the numbers from their definitions, class by class."""
    counts = masks != IGNORED
    masks, answers = masks[counts], answers[counts]
    ious, recalls, weighted = [], [], 0.0
    for number in range(num_classes):
        is_class, is_answer = masks == number, answers == number
        if is_class.any() or is_answer.any():
            iou = int((is_class & is_answer).sum()) / int((is_class | is_answer).sum())
            ious.append(iou)
            weighted += iou * int(is_class.sum())
        if is_class.any():
            recalls.append(int((is_class & is_answer).sum()) / int(is_class.sum()))
    if not len(masks):
        return dict.fromkeys(("miou", "pixel_accuracy", "mean_accuracy", "weighted_iou"), math.nan)
    return {
        "miou": math.fsum(ious) / len(ious),
        "pixel_accuracy": int((masks == answers).sum()) / len(masks),
        "mean_accuracy": math.fsum(recalls) / len(recalls),
        "weighted_iou": weighted / len(masks),
    }


@pytest.mark.parametrize("num_classes", [2, 5, 21, 150])
@pytest.mark.parametrize("seed", range(25))
def test_numbers_are_those_of_a_plain_reference(num_classes: int, seed: int) -> None:
    rng = np.random.default_rng((num_classes, seed))
    shape = (int(rng.integers(1, 7)), int(rng.integers(1, 30)), int(rng.integers(1, 30)))
    highest = int(rng.integers(1, num_classes + 1))  # some classes never come
    masks = rng.integers(0, highest, shape).astype(np.uint8)
    answers = np.where(rng.random(shape) < rng.random(), masks, rng.integers(0, num_classes, shape))
    masks[rng.random(shape) < rng.choice([0, 0.1, 1])] = IGNORED
    report = SegmentationReport(num_classes)
    cuts = np.sort(rng.integers(0, shape[0] + 1, 2))
    parts = [part for part in zip(np.split(masks, cuts), np.split(answers, cuts)) if len(part[0])]
    states = [report.state(Answer(answer.astype(np.float32)), {"mask": mask}) for mask, answer in parts]
    numbers, record = report.judge(states)
    expected = plain(masks, answers, num_classes)
    assert set(numbers) == set(expected) == set(report.names)
    for name, value in expected.items():
        if name == "weighted_iou":
            assert numbers[name] == pytest.approx(value, abs=1e-12, nan_ok=True)
        else:
            assert numbers[name] == value or (math.isnan(value) and math.isnan(numbers[name]))
    again, _ = report.judge(states[::-1])
    assert str(again) == str(numbers)
    assert sum(record["support"]) == (masks != IGNORED).sum()
    assert sum(count for *_, count in record["confusion"]) == (answers != masks)[masks != IGNORED].sum()


def placed(net: int, high: int, wide: int) -> tuple[int, int, int, int]:
    """Return where a picture of this size lies in a square that a net sees: rows and columns, from and how many."""
    factor = net / max(high, wide)
    rows, columns = max(1, round(high * factor)), max(1, round(wide * factor))
    return (net - rows) // 2, (net - columns) // 2, rows, columns


@pytest.mark.parametrize("seed", range(25))
def test_in_originals_each_pixel_is_judged_by_what_the_net_saw_under_its_middle(seed: int) -> None:
    rng, net, num_classes = np.random.default_rng(seed), 12, 4
    masks, pixels, answered, pngs = [], [], [], []
    for _ in range(3):
        high, wide = map(int, rng.integers(1, 40, 2))
        classes = rng.integers(0, num_classes, (net, net))
        mask = rng.integers(0, num_classes, (high, wide)).astype(np.uint8)
        mask[rng.random(mask.shape) < 0.1] = IGNORED
        top, left, rows, columns = placed(net, high, wide)
        for row in range(high):
            for column in range(wide):
                seen_row = top + int((row + 0.5) * rows / high)
                seen_column = left + int((column + 0.5) * columns / wide)
                masks.append(mask[row, column])
                pixels.append(classes[seen_row, seen_column])
        answered.append(classes)
        pngs.append(np.frombuffer(mask_format.encoded(mask), np.uint8))
    longest = max(map(len, pngs))
    original = np.stack([np.pad(png, (0, longest - len(png))) for png in pngs])
    report = ReportOfOriginals(num_classes)
    arrays = {"original": original, "mask": np.full((3, net, net), IGNORED, np.uint8)}
    numbers, _ = report.judge([report.state(Answer(np.stack(answered).astype(np.float32)), arrays)])
    expected = plain(np.array(masks), np.array(pixels), num_classes)
    assert numbers["miou"] == expected["miou"] and numbers["pixel_accuracy"] == expected["pixel_accuracy"]
