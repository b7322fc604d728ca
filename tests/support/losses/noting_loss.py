"""Samples that their labels tell apart, and a loss that notes which of them a worker trains on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.models import losses
from mxtrain.runtime import mx

NUM_SAMPLES = 90
FOLDER = "NOTES"  # the variable that names where each worker keeps a file


class Numbered:
    """A Dataset, each sample of which is a class of its own."""

    synsets = tuple(f"sample-{number}" for number in range(NUM_SAMPLES))
    _label = np.arange(NUM_SAMPLES)

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, number: int) -> tuple[Any, int]:
        return np.full((20, 20, 3), number, np.uint8), number


def data() -> Numbered:
    return Numbered()


def loss(output: Any, label: Any) -> Any:
    if mx.autograd.is_recording():
        with (Path(os.environ[FOLDER]) / os.environ["MXTRAIN_NODE"]).open("a") as notes:
            notes.writelines(f"{number:.0f}\n" for number in label.asnumpy())
    return losses.cross_entropy(output, label)
