"""Transforms and readers that a loader's worker processes unpickle: in a module that loads no pytest with them."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path

import numpy as np

from mxtrain.data.fields import Field
from tests.support.data.loading import TRANSFORM


@dataclasses.dataclass
class Deadly:
    """A transform that kills its process at the first `times` pictures, and then works as the others."""

    folder: Path
    times: int
    number: int = signal.SIGKILL

    def __call__(self, payload, rng, out):
        if len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), self.number)
        TRANSFORM(payload, rng, out)


def slow(payload, rng, out):
    time.sleep(0.1)


def failing(payload, rng, out):
    raise ValueError("shapes do not match")


def talking(payload, rng, out):
    print("a user's print must not disturb the workers")
    TRANSFORM(payload, rng, out)


FIELDS = (
    Field("words", (12,), "int32", multiple=4, fill=-1),
    Field("mask", (12, 2), "uint8", multiple=4),
    Field("mean", ()),
)


def read_words(record, rng, row):
    """A reader of bytes as numbers, two arrays of which vary in length."""
    words = np.frombuffer(record.payload, np.uint8).astype(np.int32)
    return {"words": words, "mask": np.full((len(words), 2), record.key, np.uint8), "mean": record.label}
