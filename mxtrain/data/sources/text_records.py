"""Texts as a data set where they lie: their tokens are bytes, as those of a pack that names no other tokenizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.interfaces import Record
from mxtrain.data.packing import tokens
from mxtrain.data.packing.tokens import TaggedItem
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.sources.source_records import SourceRecords
from mxtrain.data.text import tokenizers


class TextRecords(SourceRecords):
    """`Documents` of a source of texts."""

    tokens = tokenizers.BYTE_FORMAT

    def payload_sizes(self) -> Ints:
        """Return the number of bytes in each payload, for which all are read; DataError names one that is no text."""
        sizes = (len(self.read(position).payload) for position in range(len(self)))
        found: Ints = np.fromiter(sizes, np.int64, len(self))
        return found

    def label_rows(self) -> list[Floats]:
        """Return the labels of each text; those of words are found by reading all; one damaged has none."""
        if self._labels is None and self._source.is_tagged:
            self._labels = [self._labels_read(position) for position in range(len(self))]
        return super().label_rows()

    def _labels_read(self, position: int) -> Any:
        try:
            return self.read(position).label
        except DataError:  # the loader says so again, or passes it over
            return np.zeros(0, np.float32)

    def _read(self, position: int) -> Record:
        data, by = self._source.read(self._items[position]), tokenizers.of_bytes()
        prepared = (tokens.prepare_tagged if self._source.is_tagged else tokens.prepare)(data, by)
        if isinstance(prepared, TaggedItem):
            return Record(position, np.array(prepared.labels, np.float32), prepared.payload)
        return Record(position, self._label(position), prepared.payload)
