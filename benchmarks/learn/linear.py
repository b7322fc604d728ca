"""A linear classifier of the same pictures, by their pixels and by their colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from mxtrain.core.opencv import cv2
from mxtrain.data.decode.decoding import decode
from mxtrain.data.records.record_sets import open_set

Array = npt.NDArray[Any]
SIDE = 24  # more pixels than that only help it to learn the training pictures by heart
LEVELS = 6  # of each colour


def accuracies(train: Path, val: Path) -> dict[str, float]:
    """Return the accuracies on the held-out pictures, by what the classifier is shown."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    found = {}
    for name, features in FEATURES.items():
        (known, labels), (unknown, expected) = (_read(path, features) for path in (train, val))
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=200))
        found[name] = float(classifier.fit(known, labels).score(unknown, expected))
    return found


def _read(path: Path, features: Callable[[Array], Array]) -> tuple[Array, Array]:
    records = open_set(str(path))
    rows, labels = [], []
    for position in range(len(records)):
        record = records.read(position)
        rows.append(features(decode(record.payload)))
        labels.append(record.label)
    return np.array(rows), np.array(labels)


def pixels(image: Array) -> Array:
    small: Array = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA).ravel()
    return small


def colours(image: Array) -> Array:
    """Return how many pixels have each colour."""
    levels = image.reshape(-1, 3).astype(np.int64) * LEVELS // 256
    return np.bincount(levels @ np.array([LEVELS * LEVELS, LEVELS, 1]), minlength=LEVELS**3)


FEATURES: dict[str, Callable[[Array], Array]] = {"pixels": pixels, "colour histogram": colours}
