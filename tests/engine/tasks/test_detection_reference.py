"""Average precision as Pascal VOC has it: GluonCV's own numbers on random cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.detections.cases import NUM_CASES, Case, case, judged

COMMON = range(0, NUM_CASES, 8)


def by_gluoncv(of: Case) -> dict[str, float]:
    """Its numbers; scores that are equal become those of an order, the first in front, as it sorts them anyhow."""
    from mxtrain.runtime import gluoncv

    metrics = gluoncv.utils.metrics.voc_detection
    detections = of.detections.astype(np.float64)
    scores = detections[:, :, 1].ravel()
    detections[:, :, 1] = -np.argsort(np.argsort(-scores, kind="stable")).reshape(detections.shape[:2])
    numbers = {}
    for name, metric in (("voc_map", metrics.VOCMApMetric()), ("voc07_map", metrics.VOC07MApMetric())):
        for own, boxes in zip(detections, of.boxes.astype(np.float64)):
            parts: list[Any] = [own[:, 2:], own[:, 0], own[:, 1], boxes[:, :4], boxes[:, 4], boxes[:, 5] > 0]
            metric.update(*(part[None] for part in parts))
        numbers[name] = float(metric.get()[1]) if metric._n_pos else math.nan
    return numbers


@pytest.mark.parametrize("numbers", [COMMON, pytest.param(range(NUM_CASES), marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_numbers_are_those_of_gluoncv(numbers: range) -> None:
    for number in numbers:
        of = case(number)
        expected, own = by_gluoncv(of), judged(of)
        for name, value in expected.items():
            np.testing.assert_allclose(own[name], value, rtol=0, atol=1e-12, err_msg=f"case {number}: {name}")
