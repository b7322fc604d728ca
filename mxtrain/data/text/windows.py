"""Windows: samples of a fixed number of tokens, over documents that lie one after the other (docs/adr/0024).

Owns the arithmetic from a window to its documents, so that one .rec serves any length. What of one document a token may
look at is the net's business: an end token shows where the next document begins.
"""

from __future__ import annotations

import zlib
from pathlib import Path, PurePath
from typing import NoReturn, Protocol

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import BadSample
from mxtrain.data.interfaces import Record, Records
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.text.tokens import Ids, TokenFormat


class Documents(Records, Protocol):
    """Records whose sizes are known without reading them."""

    def payload_sizes(self) -> Ints:
        """Return the number of bytes in each payload."""


class KeptDocuments:
    """`Documents` of any records, kept in memory."""

    def __init__(self, records: Records):
        self.path, self.keys, self.files = records.path, records.keys, records.files
        self.class_names: list[str] | None = None
        self.descriptors: tuple[int, ...] = ()
        self._names = [records.where(position) for position in range(len(records))]
        self._records = [records.read(position) for position in range(len(records))]

    def __len__(self) -> int:
        return len(self._records)

    def read(self, position: int, verify: bool = True) -> Record:
        return self._records[position]

    def where(self, position: int) -> str:
        return self._names[position]

    def will_need(self, positions: Ints) -> None:
        """Do nothing: all is there."""

    def labels(self) -> Floats:
        """Return a number of each payload, by which other texts are told apart."""
        return np.array([zlib.crc32(record.payload) for record in self._records], np.float32)

    def payload_sizes(self) -> Ints:
        return np.array([len(record.payload) for record in self._records], np.int64)


class Windows:
    """`Records` of windows. The payload of window n has the tokens from n x length on, behind the one before them.

    All documents together are one row of tokens, and each of them is in one window. The first is preceded by an end
    token, as is the first of every other document. The last window may be short.
    """

    def __init__(self, documents: Documents, tokens: TokenFormat, length: int):
        if tokens.end_token is None:
            raise DataError(
                f"{documents.path}: its tokenizer {tokens.tokenizer} has no end_token, which tells documents apart; "
                "give it one, and pack again"
            )
        self.path: PurePath = documents.path
        self.files: list[Path] = []
        self.class_names: list[str] | None = None
        self.descriptors: tuple[int, ...] = documents.descriptors
        self.length = length
        self.documents, self.tokens, self._end_token = documents, tokens, tokens.end_token
        self._starts = self._document_starts()
        self.num_tokens = int(self._starts[-1])
        self.keys: Ints = np.arange(-(-self.num_tokens // length))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def folder(self) -> Path:
        """The folder of the documents, and of their tokenizer if that is a file."""
        return self.documents.files[0].parent if self.documents.files else Path()

    def read(self, position: int, verify: bool = True) -> Record:
        start, end = self._span(position)
        first = max(start - 1, 0)  # the token before, which the first one of the window follows
        pieces = [self._part(number, first, end, verify) for number in self._numbers(first, end)]
        before = [] if start else [np.array([self._end_token])]
        return Record(position, 0.0, np.concatenate([*before, *pieces]))

    def where(self, position: int) -> str:
        numbers = self._numbers(*self._span(position))
        others = f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
        return (
            f"window {position} of {self.length} tokens, in {self.documents.where(int(numbers[0]))}{others}"
        )

    def will_need(self, positions: Ints) -> None:
        spans = map(self._span, positions.tolist())
        self.documents.will_need(np.unique(np.concatenate([self._numbers(*span) for span in spans])))

    def labels(self) -> Floats:
        """Return zeros: a window has no label."""
        return np.zeros(len(self), np.float32)

    def _document_starts(self) -> Ints:
        """Return the place of each document's first token in the row of all, and the end of the row."""
        sizes = self.documents.payload_sizes()
        itemsize = np.dtype(self.tokens.dtype).itemsize
        for number in np.flatnonzero((sizes == 0) | (sizes % itemsize != 0))[:1].tolist():
            try:
                self.tokens.check_size(int(sizes[number]))
            except BadSample as bad:
                self._fail(number, bad)
            self._fail(number, BadSample("it has no tokens, not even its end; pack it again"))
        starts: Ints = np.append(0, np.cumsum(sizes // itemsize)).astype(np.int64)
        return starts

    def _span(self, position: int) -> tuple[int, int]:
        start = position * self.length
        return start, min(start + self.length, self.num_tokens)

    def _numbers(self, start: int, end: int) -> Ints:
        """Return the numbers of the documents that have tokens from `start` up to `end`."""
        first, last = np.searchsorted(self._starts, (start, end - 1), side="right") - 1
        return np.arange(first, last + 1)

    def _part(self, number: int, start: int, end: int, verify: bool) -> Ids:
        """Return the tokens of a document that lie between two places in the row of all."""
        own_start, own_end = int(self._starts[number]), int(self._starts[number + 1])
        payload = self.documents.read(number, verify).payload
        if len(payload) != (own_end - own_start) * np.dtype(self.tokens.dtype).itemsize:
            self._fail(number, BadSample("it has another length than when it was opened"))
        itemsize = np.dtype(self.tokens.dtype).itemsize
        part = slice(
            (max(start, own_start) - own_start) * itemsize, (min(end, own_end) - own_start) * itemsize
        )
        try:
            ids = self.tokens.ids(payload[part])
            if end >= own_end > own_start and ids[-1] != self._end_token:
                raise BadSample(f"it does not end with token {self._end_token}; pack it again")
        except BadSample as bad:
            self._fail(number, bad)
        return ids

    def _fail(self, number: int, bad: BadSample) -> NoReturn:
        raise DataError(f"{self.documents.where(number)}: {bad}") from None
