"""Linear models on the data of the cases: what is learnt has to be more than they know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mxtrain.data.arrays import array_fields
from mxtrain.data.records.record_file import open_records
from tests.support.user_code.majority import LONGEST
from tests.tasks.data.tastes import NUM_ITEMS, NUM_USERS


def stripes_accuracy(folder: Path) -> float:
    model, (x, y) = logistic(*_table(folder / "train.rec", _pixels)), _table(folder / "val.rec", _pixels)
    return float(model.score(x, y))


def shapes_precision(folder: Path) -> float:
    """The mean over classes, each with a model of its own."""
    metrics = pytest.importorskip("sklearn.metrics")
    (x, labels), (xv, labels_v) = (_table(folder / f"{name}.rec", _pixels) for name in ("train", "val"))
    found = []
    for y, yv in zip(labels.T, labels_v.T):
        scores = logistic(x[y >= 0], y[y >= 0]).decision_function(xv)
        found.append(metrics.average_precision_score(yv[yv >= 0], scores[yv >= 0]))
    return float(np.mean(found))


def _pixels(payload: bytes) -> Any:
    return cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR).ravel() / 255


def majority_auc(folder: Path) -> float:
    """Of the numbers of the words, at their places."""

    def words(payload: bytes) -> Any:
        return np.pad(np.frombuffer(payload, np.uint8), (0, LONGEST))[:LONGEST]

    def counted(table: tuple[Any, Any]) -> tuple[Any, Any]:
        return table[0][table[1] >= 0], table[1][table[1] >= 0]

    metrics = pytest.importorskip("sklearn.metrics")
    model = logistic(*counted(_table(folder / "train.rec", words)))
    x, y = counted(_table(folder / "val.rec", words))
    return float(metrics.roc_auc_score(y, model.decision_function(x)))


def dials_r2(folder: Path) -> float:
    return _ridge_r2(*(_table(folder / f"{name}.rec", _pixels) for name in ("train", "val")))


def spirals_accuracy(folder: Path) -> float:
    def numbers(payload: bytes) -> Any:
        return np.frombuffer(payload, "<f4")

    model, (x, y) = logistic(*_table(folder / "train.rec", numbers)), _table(folder / "val.rec", numbers)
    return float(model.score(x, y))


def gauges_r2(folder: Path) -> float:
    sets = (
        _table(folder / f"{name}.rec", lambda payload: np.frombuffer(payload, "<f4"))
        for name in ("train", "val")
    )
    return _ridge_r2(*sets)


def waves_r2(folder: Path) -> float:
    """Of the samples of the wave, at their places, zeros behind the end, and the number beside it."""
    inputs = array_fields.read_sidecars([folder / "train.rec"]).inputs

    def numbers(payload: bytes) -> Any:
        found = array_fields.decode(inputs, payload)
        return np.concatenate([found["gain"], np.pad(found["wave"], (0, 64))[:64]])

    return _ridge_r2(*(_table(folder / f"{name}.rec", numbers) for name in ("train", "val")))


def tastes_auc(folder: Path) -> float:
    """Of a number for each user and item, and of the price."""
    inputs = array_fields.read_sidecars([folder / "train.rec"]).inputs
    known: dict[int, int] = {}

    def features(payload: bytes) -> Any:
        found = array_fields.decode(inputs, payload)
        row = np.zeros(1 + NUM_USERS + NUM_ITEMS)
        row[0] = found["numbers"][0]
        row[[1 + known.setdefault(each, len(known)) for each in found["ids"].tolist()]] = 1
        return row

    metrics = pytest.importorskip("sklearn.metrics")
    model = logistic(*_table(folder / "train.rec", features))
    x, y = _table(folder / "val.rec", features)
    return float(metrics.roc_auc_score(y, model.decision_function(x)))


def _ridge_r2(train: tuple[Any, Any], val: tuple[Any, Any]) -> float:
    model = pytest.importorskip("sklearn.linear_model").RidgeCV(np.logspace(-2, 4, 7)).fit(*train)
    return float(model.score(*val))


def _table(path: Path, features: Any) -> tuple[Any, Any]:
    records = open_records(path)
    rows = [features(bytes(records.read(position).payload)) for position in range(len(records))]
    return np.array(rows, np.float64), records.labels()


def logistic(x: Any, y: Any) -> Any:
    return pytest.importorskip("sklearn.linear_model").LogisticRegression(max_iter=1000).fit(x, y)
