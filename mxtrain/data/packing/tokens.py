"""Tokenization: one record a document, its ids as little-endian uint16 or uint32, its label 0 or its class.

Ids are uint16 where the tokenizer's `vocab_size` allows, else uint32. Each document ends with the tokenizer's
`end_token` if it has one. Where words have labels, a record has one for each token (`mxtrain/data/text/words.py`). The
.tokens.json beside a .rec says all that a reader needs; tokenizers themselves are `mxtrain/data/text/tokenizers.py`'s.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, by_name
from mxtrain.core import formats, regular_files
from mxtrain.core.errors import UsageError
from mxtrain.data.packing.pictures.images import PackedItem
from mxtrain.data.sources.item import BadItem, Item, Source
from mxtrain.data.text import tokenizers, words
from mxtrain.data.text.tokenizers import Tokenizer

BPE = "bpe"
KNOWN = by_name(
    Component(tokenizers.BYTES), Component(BPE, numbers={"vocabulary": Number(8192, 257, 1 << 24)})
)


class TaggedItem(NamedTuple):
    """The payload of a record, and a label for each of its tokens."""

    payload: bytes
    labels: tuple[float, ...]
    notes: tuple[str, ...] = ()  # as PackedItem's


def tokenizer(name: str, texts: Iterable[str]) -> Tokenizer:
    """Return the tokenizer that --tokenizer names; `bpe` learns from `texts`, which is not touched for another one."""
    if name.endswith(".json"):
        try:
            content = regular_files.read(Path(name)).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--tokenizer {name}: cannot be read ({error})") from None
        return tokenizers.of_json(content, f"--tokenizer {name}")
    found = component.parse("--tokenizer", name, KNOWN)
    if found.name == tokenizers.BYTES:
        return tokenizers.of_bytes()
    if found.name == BPE:
        return tokenizers.train(texts, found.hyperparameters["vocabulary"], f"--tokenizer {name}")
    return tokenizers.of_user(found.name)


def training_texts(items: Iterable[Item], source: Source) -> Iterator[str]:
    """Yield the text of each item that has one; the others are named where they are packed."""
    for item in items:
        try:
            data = source.read(item)
            yield " ".join(json.loads(data)[0]) if source.is_tagged else data.decode()
        except (BadItem, OSError, UnicodeDecodeError):
            continue


def dtype_of(by: Tokenizer) -> npt.DTypeLike:
    """Return the type in which the ids of a tokenizer are stored."""
    return "<u2" if by.vocab_size and by.vocab_size <= 1 << 16 else "<u4"


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
    num_tokens = len(payload) // np.dtype(dtype_of(by)).itemsize
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
    return ids.astype(dtype_of(by)).tobytes()


def metadata(by: Tokenizer, num_documents: int, num_bytes: int, labels: str | None = None) -> bytes:
    """Return the content of the .tokens.json of a .rec whose payloads have `num_bytes` in all."""
    dtype = np.dtype(dtype_of(by))
    content = {
        formats.KEY: formats.TOKENS,
        "tokenizer": by.name,
        "vocab_size": by.vocab_size,
        "end_token": by.end_token,
        "dtype": dtype.name,
        "num_documents": num_documents,
        "num_tokens": num_bytes // dtype.itemsize,
        **({"labels": labels} if labels else {}),
    }
    return json.dumps(content, indent=2).encode() + b"\n"
