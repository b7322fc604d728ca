"""Numbers of pycocotools for the random cases, which are kept beside this file: it has no wheel for every Python.

After `pip install pycocotools`, `python -m tests.support.detections.reference` makes them anew.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.detections.cases import NUM_CASES, Case, case

KEPT = Path(__file__).with_name("coco_numbers.npy")  # float64 (cases, 12), -1 where there is no number
BEYOND = 2e10  # an area in no range: such a box counts neither for nor against, as a difficult one


def numbers(of: Case) -> Any:
    """Return COCO's twelve numbers of a case."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    annotations: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for picture, (boxes, detections) in enumerate(
        zip(of.boxes.astype(float), of.detections.astype(float)), 1
    ):
        for x1, y1, x2, y2, number, flag in boxes[boxes[:, 4] >= 0].tolist():
            area = BEYOND if flag == 1 else (x2 - x1) * (y2 - y1)
            row = {"image_id": picture, "category_id": int(number) + 1, "bbox": [x1, y1, x2 - x1, y2 - y1]}
            annotations.append({**row, "id": len(annotations) + 1, "area": area, "iscrowd": int(flag == 2)})
        for number, score, x1, y1, x2, y2 in detections[detections[:, 0] >= 0].tolist():
            row = {"image_id": picture, "category_id": int(number) + 1, "bbox": [x1, y1, x2 - x1, y2 - y1]}
            answers.append({**row, "score": score})
    truth = COCO()
    truth.dataset = {
        "images": [{"id": picture} for picture in range(1, len(of.boxes) + 1)],
        "annotations": annotations,
        "categories": [{"id": number} for number in range(1, of.num_classes + 1)],
    }
    truth.createIndex()
    found = truth.loadRes(answers) if answers else COCO()
    if not answers:
        found.dataset = {**truth.dataset, "annotations": []}
        found.createIndex()
    evaluation = COCOeval(truth, found, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation.stats


def main() -> None:
    """Write the numbers of all cases."""
    with contextlib.redirect_stdout(io.StringIO()):
        rows = [numbers(case(number)) for number in range(NUM_CASES)]
    np.save(KEPT, np.array(rows))


if __name__ == "__main__":
    main()
