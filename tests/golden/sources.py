"""What the golden packs are packed from: pictures, tables and texts of a few bytes each, the same in every version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

SIZE, SETS = 8, (("train", 32), ("val", 8))
LETTERS = list("abcdefgh")


def write(folder: Path) -> None:
    """Write all sources, and what is predicted of each, into an empty folder."""
    for seed, (name, count) in enumerate(SETS):
        rng = np.random.default_rng(seed)
        _pictures(folder, name, count, rng)
        _tables(folder, name, count, rng)
        _texts(folder, name, count, rng)
    rng = np.random.default_rng(9)
    (folder / "one.png").write_bytes(_picture(1, rng))
    (folder / "one.csv").write_text("east,north\n100,2\n")
    (folder / "one.txt").write_text("a b C x y")
    np.savez(folder / "one.npz", wave=np.ones((1, 6), np.float32), gain=np.ones((1, 1), np.float32))


def _picture(label: int, rng: np.random.Generator) -> bytes:
    """Return a PNG of four grey quarters, brighter for class 1, with a little colour."""
    quarters = rng.integers(40, 130, (2, 2, 1)) + 80 * label + rng.integers(-20, 20, 3)
    pixels = np.clip(quarters.repeat(SIZE // 2, 0).repeat(SIZE // 2, 1), 0, 255).astype(np.uint8)
    encoded: bytes = cv2.imencode(".png", pixels)[1].tobytes()
    return encoded


def _pictures(folder: Path, name: str, count: int, rng: np.random.Generator) -> None:
    several, numbers = [], []
    for number in range(count):
        label = number % 2
        path = folder / "pictures" / name / ("dark", "bright")[label] / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_picture(label, rng))
        of_list = path.relative_to(folder)
        several.append(f"{of_list},{label},{number % 3 // 2},{1 - label}\n")
        numbers.append(f"{of_list},{label + rng.normal(0, 0.1):.4f},{-label + rng.normal(0, 0.1):.4f}\n")
    (folder / f"multilabel_{name}.csv").write_text("".join(several))
    (folder / f"regression_{name}.csv").write_text("".join(numbers))


def _tables(folder: Path, name: str, count: int, rng: np.random.Generator) -> None:
    points = [
        (rng.normal(100 * (n % 2), 30), rng.normal(2 * (n % 2), 1), ("left", "right")[n % 2])
        for n in range(count)
    ]
    rows = [f"{east:.4f},{north:.4f},{arm}" for east, north, arm in points]
    (folder / f"arrays_{name}.csv").write_text("\n".join(["east,north,arm", *rows]) + "\n")
    lengths = rng.integers(3, 9, count)
    waves = rng.normal(0, 1, int(lengths.sum())).astype(np.float32)
    columns: dict[str, Any] = {"wave": waves, "wave_lengths": lengths}
    gains = rng.uniform(1, 2, (count, 1)).astype(np.float32)
    np.savez(folder / f"series_{name}.npz", **columns, gain=gains, y=np.round(rng.uniform(0, 9, count), 3))


def _texts(folder: Path, name: str, count: int, rng: np.random.Generator) -> None:
    plain, labelled, tagged = [], [], []
    for number in range(count):
        letters = [str(each) for each in rng.choice(LETTERS, 8)]
        plain.append({"text": "".join(letters) + "123456"})
        marked = [*letters[:4], ("xy", "yx")[number % 2], *letters[4:]]
        labelled.append({"text": "".join(marked), "label": ("x first", "y first")[number % 2]})
        words = [each.upper() if place % 3 == number % 3 else each for place, each in enumerate(letters[:6])]
        tagged.append({"tokens": words, "labels": ["B-PER" if each.isupper() else "O" for each in words]})
    for kind, rows in (("lm", plain), ("labelled_text", labelled), ("tagged_text", tagged)):
        (folder / f"{kind}_{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
