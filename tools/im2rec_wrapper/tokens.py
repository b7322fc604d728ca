"""Tokenization: one record a document, its ids as little-endian uint16 or uint32, its label 0 or its class.

Ids are uint16 where the tokenizer's `vocab_size` allows, else uint32. Each document ends with the tokenizer's
`end_token` if it has one. Where words have labels, a record has one for each token (`mxtrain/data/words.py`). The
.tokens.json beside a .rec says all that a reader needs.
"""

from __future__ import annotations

import json
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.config.import_path import load_callable
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.data import words

from .images import PackedItem
from .sources.item import BadItem

BYTES = "bytes"


class TaggedItem(NamedTuple):
    """The payload of a record, and a label for each of its tokens."""

    payload: bytes
    labels: tuple[float, ...]
    notes: tuple[str, ...] = ()  # as PackedItem's


class Tokenizer(NamedTuple):
    """The function from text to ids, and what is known of the ids."""

    name: str
    encode: Callable[[str], Any]  # a sequence of whole numbers
    vocab_size: int | None
    end_token: int | None

    @property
    def dtype(self) -> npt.DTypeLike:
        return "<u2" if self.vocab_size and self.vocab_size <= 1 << 16 else "<u4"


def tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer that --tokenizer names: `bytes`, UTF-8's bytes and 256 at the end, or `module:callable`."""
    if name == BYTES:
        return Tokenizer(name, lambda text: np.frombuffer(text.encode(), np.uint8), 257, 256)
    if ":" not in name:
        raise UsageError(
            f"--tokenizer {name}: known is {BYTES}; another one is given as package.module:callable"
        )
    encode = load_callable("--tokenizer", name)
    named = as_user_code(f"--tokenizer {name}", encode)
    return Tokenizer(name, named, getattr(encode, "vocab_size", None), getattr(encode, "end_token", None))


def prepare(data: bytes, by: Tokenizer) -> PackedItem:
    """Return the payload of a document; BadItem if it is no text, or the tokenizer returns no ids."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadItem(f"it is not UTF-8 text ({error.reason} at byte {error.start})") from None
    return PackedItem(_payload(by.encode(text), by))


def prepare_tagged(data: bytes, by: Tokenizer) -> TaggedItem:
    """Return payload and labels of a sentence, from the JSON of its words and of their labels."""
    of_words, labels = json.loads(data)
    if not of_words:
        raise BadItem("it has no words")
    try:
        found = words.tokens_of_words(of_words, by.encode)
    except (ValueError, TypeError) as error:
        raise BadItem(f"{by.name}: {error}") from None
    payload = _payload(found.ids, by)
    num_tokens = len(payload) // np.dtype(by.dtype).itemsize
    of_tokens = words.token_labels(found.starts, labels, num_tokens)
    return TaggedItem(payload, tuple(of_tokens.tolist()))


def _payload(tokens: Any, by: Tokenizer) -> bytes:
    """Return the bytes of a document with these tokens; BadItem where they are none."""
    ids = np.asarray(tokens)
    if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
        raise BadItem(f"{by.name} made {ids.dtype} {ids.shape} of it, not a row of whole numbers")
    end = [] if by.end_token is None else [by.end_token]
    ids = np.concatenate([ids.astype(np.int64), np.array(end, np.int64)])
    limit = by.vocab_size or 1 << 32
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < limit:
        raise BadItem(
            f"{by.name} made ids from {ids.min()} to {ids.max()} of it; they go from 0 to {limit - 1}"
        )
    return ids.astype(by.dtype).tobytes()


def metadata(by: Tokenizer, num_documents: int, num_bytes: int, labels: str | None = None) -> bytes:
    """Return the content of the .tokens.json of a .rec whose payloads have `num_bytes` in all."""
    dtype = np.dtype(by.dtype)
    content = {
        "tokenizer": by.name,
        "vocab_size": by.vocab_size,
        "end_token": by.end_token,
        "dtype": dtype.name,
        "num_documents": num_documents,
        "num_tokens": num_bytes // dtype.itemsize,
        **({"labels": labels} if labels else {}),
    }
    return json.dumps(content, indent=2).encode() + b"\n"
