"""Records of token ids: what the .tokens.json beside a .rec says of them, and the ids of a record.

A record is a document, its payload little-endian whole numbers. Does not make ids of text (`tokenizers.py`), nor cut
documents into samples (`windows.py`).
"""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.core import command_name, formats, regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.fields import BadSample
from mxtrain.data.interfaces import Dataset

Ids = npt.NDArray[np.int64]
TYPES = ("uint16", "uint32")
OF_DOCUMENTS, OF_TOKENS = "documents", "tokens"  # what has `labels`, where there are some


class TokenFormat(NamedTuple):
    """Properties that all ids of a data set have in common."""

    tokenizer: str  # as `tokenizers.py` names it
    vocab_size: int  # ids are below it
    end_token: int | None  # the last id of each document
    dtype: str

    def ids(self, payload: Any) -> Ids:
        """Return the ids of a record's payload; BadSample where they are none of this format."""
        self.check_size(len(payload))
        ids: Ids = np.frombuffer(payload, np.dtype(self.dtype).newbyteorder("<")).astype(np.int64)
        self.check_ids(ids)
        return ids

    def check_size(self, num_bytes: int) -> None:
        """Raise BadSample for a payload of so many bytes as no row of ids has."""
        if num_bytes % np.dtype(self.dtype).itemsize:
            raise BadSample(f"its {num_bytes} bytes are no row of {self.dtype}; pack it again")

    def check_ids(self, ids: Ids) -> None:
        """Raise BadSample for ids outside of the vocabulary: MXNet would take them for the last one and say nothing."""
        if len(ids) and ids.max() >= self.vocab_size:
            raise BadSample(
                f"it has token {ids.max()}, but the vocabulary ends at {self.vocab_size - 1}; pack it again with the "
                "tokenizer that its .tokens.json names"
            )


def tokens_path(rec: Path) -> Path:
    """Return the path of a .rec's .tokens.json."""
    return rec.with_suffix(".tokens.json")


def format_of(dataset: Dataset) -> TokenFormat:
    """Return the one format of a data set's files; DataError where there is none, or where they differ."""
    own: TokenFormat | None = getattr(dataset, "tokens", None)  # of texts that are not packed
    if own is not None:
        return own
    if not dataset.files:
        raise DataError(f"{dataset.path}: is no .rec file of tokens; {_remedy()}")
    first, *others = [(path, read_format(path)) for path in dataset.files]
    for path, other in others:
        refuse_other(first[0], first[1], path, other)
    return first[1]


def refuse_other(path: PurePath, known: TokenFormat, other_path: PurePath, other: TokenFormat) -> None:
    """Raise DataError where the ids of two data sets do not mean the same; their types may differ."""
    for name in ("tokenizer", "vocab_size", "end_token"):
        before, now = getattr(known, name), getattr(other, name)
        if before != now:
            values = "" if name == "tokenizer" else f" ({now}, not {before})"
            raise DataError(
                f"{other_path}: has another {name.replace('_', ' ')} than {path}{values}, so ids mean other things; "
                "pack both with one tokenizer"
            )
    if known.dtype != other.dtype:
        raise DataError(
            f"{other_path}: has ids of {other.dtype}, {path} of {known.dtype}; pack them together"
        )


def read_format(rec: Path) -> TokenFormat:
    """Read the .tokens.json of a .rec, with the tokenizer that it names."""
    path = tokens_path(rec)
    described = read_description(path)
    if described["vocab_size"] is None:
        raise DataError(
            f"{path}: does not say how many tokens there are; give the tokenizer {described['tokenizer']} an "
            "attribute vocab_size, and pack again"
        )
    return TokenFormat(
        described["tokenizer"], described["vocab_size"], described["end_token"], described["dtype"]
    )


def read_description(path: Path) -> dict[str, Any]:
    """Return the content of a .tokens.json; DataError where it is missing or makes no sense."""
    try:
        metadata = json.loads(regular_files.read(path))
    except FileNotFoundError:
        raise DataError(
            f"{path}: is missing, so nothing tells what the records' bytes mean; {_remedy()}"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        metadata = None
    if isinstance(metadata, dict):
        formats.refuse_newer(path, metadata.get(formats.KEY, 1), formats.TOKENS)
    if not _makes_sense(metadata):
        raise DataError(f"{path}: is damaged; copy it again, or pack again")
    described: dict[str, Any] = metadata
    return described


def _makes_sense(metadata: Any) -> bool:
    if not isinstance(metadata, dict) or not isinstance(metadata.get("tokenizer"), str):
        return False
    size, end = (metadata.get(name, "") for name in ("vocab_size", "end_token"))
    if not all(each is None or type(each) is int for each in (size, end)):
        return False
    if (size is not None and not 0 < size <= 1 << 32) or (
        end is not None and not 0 <= end < (size or 1 << 32)
    ):
        return False
    return metadata.get("dtype") in TYPES and metadata.get("labels") in (None, OF_DOCUMENTS, OF_TOKENS)


def _remedy() -> str:
    return f"pack text with `{command_name.packer()} pack SOURCE OUT`"
