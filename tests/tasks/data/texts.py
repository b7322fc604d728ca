"""Texts that no bag of words tells apart, packed as a user packs them.

Orders: letters with one x and one y in them; the class is which of the two comes first, however far apart they are.
Entities: words of a letter; capitals side by side are a person or a place, as the sentence's first word alone tells.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import open_records
from mxtrain.tasks.metrics import text_metrics
from tests.tasks.data import linear

LETTERS = list("abcdefgh")
PERSONS, PLACES = "p", "q"  # first words


def order(rng: np.random.Generator) -> dict[str, Any]:
    letters = rng.choice(LETTERS, rng.integers(4, 24))
    first, second = sorted(rng.choice(len(letters), 2, replace=False))
    is_x_first = bool(rng.integers(2))
    letters[first], letters[second] = "xy" if is_x_first else "yx"
    return {"text": "".join(letters), "label": "x first" if is_x_first else "y first"}


def entities(rng: np.random.Generator) -> dict[str, Any]:
    kind = str(rng.choice([PERSONS, PLACES]))
    words, labels = [kind], ["O"]
    for _ in range(rng.integers(4, 12)):
        is_capital = rng.random() < 0.5
        words.append(str(rng.choice(LETTERS)).upper() if is_capital else str(rng.choice(LETTERS)))
        name = "PER" if kind == PERSONS else "LOC"
        labels.append("O" if not is_capital else f"B-{name}" if labels[-1] == "O" else f"I-{name}")
    return {"tokens": words, "labels": labels}


def write_orders(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec and val.rec of orders."""
    _write(folder, num_train, num_val, order, "labelled_text")


def write_entities(folder: Path, num_train: int, num_val: int) -> None:
    """Write train.rec and val.rec of entities."""
    _write(folder, num_train, num_val, entities, "tagged_text")


def _write(folder: Path, num_train: int, num_val: int, make: Any, kind: str) -> None:
    (folder / "one.txt").write_text("p x A y")
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        rng = np.random.default_rng(seed)
        lines = "".join(json.dumps(make(rng)) + "\n" for _ in range(count))
        (folder / f"{name}.jsonl").write_text(lines)
        pack(folder / f"{name}.jsonl", folder / f"{name}.rec", Options(source_type=kind))


def bag_accuracy(folder: Path) -> float:
    """Return what a linear model of the letters of a text reaches."""

    def table(name: str) -> tuple[Any, Any]:
        records = open_records(folder / f"{name}.rec")
        rows = [np.bincount(_ids(records.read(n)), minlength=257) for n in range(len(records))]
        return np.array(rows), records.labels()

    return float(linear.logistic(*table("train")).score(*table("val")))


def window_entity_f1(folder: Path) -> float:
    """Return what a linear model of a token and the three on each side of it reaches."""
    names = open_records(folder / "train.rec").class_names

    def table(name: str) -> tuple[Any, list[Any]]:
        rows, labels = [], []
        records = open_records(folder / f"{name}.rec")
        for record in map(records.read, range(len(records))):
            padded = np.pad(_ids(record), 3)
            places = np.flatnonzero(record.label >= 0)
            rows += [np.eye(128)[padded[place : place + 7] % 128].ravel() for place in places]
            labels.append(record.label[places])
        return np.array(rows), labels

    (x, y), (x_val, y_val) = table("train"), table("val")
    found = linear.logistic(x, np.concatenate(y)).predict(x_val)
    counts = np.zeros(3)
    for wanted in y_val:
        own, found = found[: len(wanted)], found[len(wanted) :]
        pair = [set(text_metrics.spans([names[int(each)] for each in numbers])) for numbers in (own, wanted)]
        counts += (len(pair[0] & pair[1]), len(pair[0]), len(pair[1]))
    return float(2 * counts[0] / counts[1:].sum())


def _ids(record: Any) -> Any:
    return np.frombuffer(record.payload, "<u2")
