"""The weights of classes in a training loss: `--class-weights`.

Owns what the flag may say, and the formulas of `auto` (docs/classification.md). What a weight does to a loss is the
task's.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Sequence

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.interfaces import Dataset
from mxtrain.data.records.recordio import Floats, Ints

NONE, AUTO = "none", "auto"
LARGEST = 1e6


def of_classes(text: str, train: Dataset, names: Sequence[str]) -> list[float] | None:
    """Return the weight of each class of samples with one label; None where all count alike."""
    if text != AUTO:
        return _parse_weights(text, names)
    return balanced(np.bincount(_known_labels(train).ravel().astype(np.int64), minlength=len(names)))


def balanced(counts: Ints) -> list[float]:
    """Return weights with which all classes that there are count as much, from how often each comes."""
    num_present = np.count_nonzero(counts)
    return [float(counts.sum() / (num_present * count)) if count else 1.0 for count in counts.tolist()]


def of_labels(text: str, train: Dataset, names: Sequence[str]) -> list[float] | None:
    """Return the weight of each class where it is in the picture, for samples of several labels."""
    if text != AUTO:
        return _parse_weights(text, names)
    labels = _known_labels(train)
    counts = zip((labels == 1).sum(axis=0).tolist(), (labels == 0).sum(axis=0).tolist())
    return [without / having if having and without else 1.0 for having, without in counts]


def _known_labels(train: Dataset) -> Floats:
    labels = train.labels()
    if not len(labels):
        raise UsageError(
            f"--class-weights auto: the labels of --train {train.path} are not known beforehand; give numbers, a file "
            "or none"
        )
    return labels


def _parse_weights(text: str, names: Sequence[str]) -> list[float] | None:
    if text == NONE:
        return None
    numbers = [plain_text.parse_number(part.strip()) for part in text.split(",")]
    if None in numbers:
        weights = _of_file(text, names)
    elif len(numbers) != len(names):
        raise UsageError(
            f"--class-weights {text}: {len(numbers)} numbers for {len(names)} classes; give one for each, or a file"
        )
    else:
        weights = [number for number in numbers if number is not None]
    wrong = [weight for weight in weights if not 0 <= weight <= LARGEST]  # as NaN is
    if wrong:
        raise UsageError(f"--class-weights {text}: holds {wrong[0]:g}; give numbers from 0 to {LARGEST:g}")
    if not any(weights):
        raise UsageError(f"--class-weights {text}: no class counts; give one of them more than 0")
    return weights


def _of_file(text: str, names: Sequence[str]) -> list[float]:
    """Read lines of `name<TAB>weight`; classes that are not named count 1."""
    try:
        lines = plain_text.split_lines(regular_files.read(Path(text)).decode("utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"--class-weights {text}: no such file; give auto, none, a number for each class, or a file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--class-weights {text}: cannot be read ({error})") from None
    weights: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        name, _, weight_text = line.rpartition("\t")
        weight = plain_text.parse_number(weight_text.strip())
        if name not in names:
            raise DataError(f"{text}: line {number}: no class is called '{name}'{nearest(name, list(names))}")
        if weight is None or not math.isfinite(weight):
            raise DataError(f"{text}: line {number}: has to be a class, a tab and a number")
        if name in weights:
            raise DataError(f"{text}: line {number}: names '{name}' again; give each class once")
        weights[name] = weight
    return [weights.get(name, 1.0) for name in names]
