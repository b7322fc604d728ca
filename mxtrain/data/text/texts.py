"""Samples of text for classifiers: the tokens of a record, and its class, or the class of each token.

Owns how a record becomes a sample: cut to the window, as long as its micro-batch's longest, with a mask. What changes
while training is `text_augment.py`'s, ids are `tokens.py`'s.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Callable, Mapping

import numpy as np

from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Arrays, BadSample, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import label_checks
from mxtrain.data.records.recordio import Ints
from mxtrain.data.text import tokenizers, words
from mxtrain.data.text.tokenizers import Tokenizer
from mxtrain.data.text.tokens import OF_DOCUMENTS, OF_TOKENS, TokenFormat, read_description, tokens_path
from mxtrain.data.text.words import NO_LABEL

STEP = 16  # a micro-batch is as long as a multiple of it
TASKS_OF_LABELS = {
    OF_DOCUMENTS: ("sequence_classification", "labelled_text"),
    OF_TOKENS: ("token_classification", "tagged_text"),
}
# From the tokens of a text and the label of each, NO_LABEL where a text has one, to what they become while training.
Change = Callable[[Ints, Ints, np.random.Generator], "tuple[Ints, Ints]"]


def fields(window: int, of_tokens: bool) -> tuple[Field, ...]:
    """Return the arrays of a text of up to `window` tokens."""
    label = Field("label", (window,), multiple=STEP, fill=NO_LABEL) if of_tokens else Field("label", ())
    return Field("tokens", (window,), "int32", multiple=STEP), Field("mask", (window,), multiple=STEP), label


@dataclasses.dataclass(frozen=True)
class TextReader:
    """A `SampleReader` of texts; tokens behind the window are left out."""

    tokens: TokenFormat
    window: int
    num_classes: int
    of_tokens: bool
    change: Change | None = None

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Mapping[str, Any]:
        ids = self.tokens.ids(record.payload)
        if not len(ids):
            raise BadSample("it has no tokens; pack it again without it")
        of_tokens = self._labels(record.label, len(ids)) if self.of_tokens else np.full(len(ids), NO_LABEL)
        if not self.of_tokens:
            label_checks.check_sample(record.label, self.num_classes)
        if self.change is not None:
            ids, of_tokens = self.change(ids, of_tokens, rng)
        ids = ids[: self.window]
        label = of_tokens[: self.window] if self.of_tokens else np.reshape(record.label, ())
        return {"tokens": ids, "mask": np.ones(len(ids)), "label": label}

    def _labels(self, label: Any, num_tokens: int) -> Ints:
        found = np.atleast_1d(np.asarray(label, np.float64))
        if len(found) != num_tokens:
            raise BadSample(f"it has {len(found)} labels for {num_tokens} tokens; pack it again")
        numbers: Ints = np.where(np.isfinite(found), found, self.num_classes).astype(np.int64)
        wrong = found[(numbers != found) | (numbers < NO_LABEL) | (numbers >= self.num_classes)]
        if len(wrong):
            raise BadSample(
                f"a token has label {wrong[0]:g}; labels are classes from 0 to {self.num_classes - 1}, or {NO_LABEL}"
            )
        return numbers


def payload_of(text: object, key: int, user: str) -> bytes:
    """Return the payload of a user's text, whose tokens are bytes; UsageError where it is none."""
    if not isinstance(text, str):
        raise UsageError(
            f"{user}: gives a {type(text).__name__} as the text of sample {key}; give a str, or pack texts with a "
            "tokenizer of yours"
        )
    refuse_half_letters(text, key, user)
    ids = [*tokenizers.of_bytes().encode(text), tokenizers.BYTES_END]
    return np.array(ids, np.dtype(tokenizers.BYTE_FORMAT.dtype).newbyteorder("<")).tobytes()


def refuse_half_letters(text: str, key: int, user: str) -> None:
    """Refuse a user's text that has no bytes, with a UsageError."""
    problem = plain_text.utf8_problem(text)
    if problem:
        raise UsageError(f"{user}: sample {key} {problem}; decode it with errors='replace', or leave it out")


def input_of(source: object, tokenizer: Tokenizer, window: int, of_tokens: bool) -> dict[str, Any]:
    """Return the arrays of a text, a `str` or what a file holds; DataError where it is none.

    With `of_tokens` there is a label too, 0 for the first token of each word, so that an answer can name the words.
    """
    text, where = _text_of(source)
    problem = plain_text.utf8_problem(text)
    if problem:
        raise DataError(f"{where}: {problem}")
    try:
        tokens = words.tokens_of_words(text.split(), tokenizer.encode) if of_tokens else None
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    ids = np.asarray(tokenizer.encode(text), np.int64) if tokens is None else tokens.ids
    if not len(ids):
        raise DataError(f"{where}: is empty")
    end = [] if tokenizer.end_token is None else [tokenizer.end_token]
    ids = np.append(ids, np.array(end, np.int64))[:window]
    arrays = {"tokens": ids.astype(np.int32), "mask": np.ones(len(ids), np.float32)}
    if tokens is None:
        return arrays
    starts = tokens.starts[tokens.starts < window]
    return {**arrays, "label": words.token_labels(starts, [0] * len(starts), len(ids)).astype(np.float32)}


def _text_of(source: object) -> tuple[str, str]:
    """Return the text, and what messages call it."""
    if isinstance(source, str):
        return source, "the text"
    if not isinstance(source, os.PathLike):
        raise DataError(f"a {type(source).__name__} is no text; give a str, or the path of a file")
    try:
        return regular_files.read(Path(source)).decode("utf-8"), os.fspath(source)
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(f"{source}: is not UTF-8 text") from None


def refuse_other_labels(dataset: Dataset, wanted: str) -> None:
    """Raise DataError where the records of a data set have no labels, or others than `wanted`, a key of "
    "TASKS_OF_LABELS."""
    for path in dataset.files:
        found = read_description(tokens_path(path)).get("labels")
        if found == wanted:
            continue
        if found in TASKS_OF_LABELS:
            raise DataError(f"{path}: has labels of {found}; --task {TASKS_OF_LABELS[found][0]} learns those")
        raise DataError(
            f"{path}: holds text without labels; pack it with --from {TASKS_OF_LABELS[wanted][1]}"
        )


def token_class_names(train: Dataset) -> list[str]:
    """Return the names of the classes of tokens; DataError where there are none."""
    names = train.class_names or []
    if len(names) < 2:
        raise DataError(
            f"{train.path}: names {len(names)} classes of tokens; a classifier needs at least two, in the .classes.tsv "
            "beside it"
        )
    return names
