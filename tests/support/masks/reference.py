"""What COCO's own tool makes of masks, written down by a program that has it:

pip install pycocotools numpy && python tests/support/masks/reference.py tests/support/masks/coco.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

RUNS, POLYGONS = 24, 24


def main(path: str) -> None:
    from pycocotools import mask

    rng = np.random.default_rng(0)
    runs, polygons = [], []
    for number in range(RUNS):
        height, width = (int(side) for side in rng.integers(1, 25, 2))
        pixels = (rng.random((height, width)) < rng.random()).astype(np.uint8)
        if number < 2:
            pixels[:] = number
        encoded = mask.encode(np.asfortranarray(pixels))["counts"].decode()
        rows = ["".join(map(str, row)) for row in pixels.tolist()]
        runs.append({"size": [height, width], "counts": encoded, "rows": rows})
    for _ in range(POLYGONS):
        height, width = (int(side) for side in rng.integers(20, 120, 2))
        angles = np.sort(rng.random(int(rng.integers(3, 9)))) * 2 * np.pi
        radius = rng.uniform(0.3, 0.9, len(angles)) * min(height, width) / 2
        corners = np.stack(
            [width / 2 + radius * np.cos(angles), height / 2 + radius * np.sin(angles)], axis=1
        )
        polygon = corners.round(2).ravel().tolist()
        counts = mask.frPyObjects([polygon], height, width)[0]["counts"].decode()
        polygons.append({"size": [height, width], "polygon": polygon, "counts": counts})
    Path(path).write_text(json.dumps({"runs": runs, "polygons": polygons}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
