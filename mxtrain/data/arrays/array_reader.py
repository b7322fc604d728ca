"""The function from records of arrays to samples.

Owns standardisation as samples are read, and what is refused of one. What a record holds is `array_fields.py`'s.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Mapping

import numpy as np

from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.fields import Arrays, BadSample
from mxtrain.data.interfaces import Record
from mxtrain.data.labels import label_checks


@dataclasses.dataclass(frozen=True)
class ArrayReader:
    """The function from a record, whose payload is bytes or named arrays, to a sample. A picklable value."""

    inputs: tuple[Input, ...]
    label: tuple[int, ...]  # its shape
    num_classes: int = 0  # of which it is one; 0 for numbers and for several labels
    has_several: bool = False  # labels
    advice: str = ""  # what to do about a bad sample

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Arrays:
        try:
            return self._sample(record)
        except BadSample as bad:
            raise BadSample(f"{bad}; {self.advice}" if self.advice else str(bad)) from None

    def _sample(self, record: Record) -> Arrays:
        if np.size(record.label) != math.prod(self.label):
            raise BadSample(
                f"it has {np.size(record.label)} targets, and the net learns {math.prod(self.label)}"
            )
        label = np.reshape(record.label, self.label)
        if not np.isfinite(label).all():
            raise BadSample("what is to be predicted is not finite")
        if self.num_classes:
            label_checks.check_sample(record.label, self.num_classes)
        if self.has_several:
            label_checks.check_labels_of_sample(record.label)
        return {**self.standardised(record.payload), "label": label}

    def standardised(self, payload: Any) -> Arrays:
        """Return a payload's arrays as a net takes them, and their masks; BadSample where it takes no such arrays."""
        values = payload if isinstance(payload, Mapping) else array_fields.decode(self.inputs, payload)
        found: Arrays = {}
        problem = array_fields.refused(self.inputs, values)
        if problem:
            raise BadSample(problem)
        for each in self.inputs:
            array = np.asarray(values[each.name])
            assert each.statistics is not None, "inputs are measured before they are read"
            found[each.name] = each.statistics.standardised(array).astype(np.float32)
            if each.varies:
                found[each.name + array_fields.MASK] = np.ones(len(array), np.float32)
        return found
