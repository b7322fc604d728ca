"""The numbers of the formats of files that mxtrain writes, and the refusal of a file that a newer mxtrain has written.

A number grows when a reader of the number before would misread the file; keys that such a reader may skip change none.
A file without a number is from before there were any, and of the first format. RecordIO has none: it is MXNet's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxtrain
from mxtrain.core.errors import DataError, UsageError

KEY = "format_version"
CHECKPOINT = 2  # its number is `version` in state.json
RUN = 1  # metrics.jsonl, config.yaml and environment.json, where the number is
TOKENS, ARRAYS = 1, 1  # of packs: .tokens.json and .arrays.json, with the payloads that they describe
SEARCH = 1  # study.db, by an attribute of its study
EXPORT = 1  # export.json
ROWS = 1  # of tables, in checkpoints and beside exports (docs/tables.md)


def refuse_newer(path: Path, number: Any, known: int) -> None:
    """Raise UsageError for a file of a format above `known`; DataError where `number` is none."""
    if type(number) is not int or number < 1:
        raise DataError(f"{path}: says {number!r} for its format, which is no number; put a whole copy there")
    if number > known:
        raise newer(path, number, known)


def newer(path: Path, number: int, known: int) -> UsageError:
    """Return the refusal of a file of format `number` by a reader of formats up to `known`."""
    return UsageError(
        f"{path}: written in format {number}, this mxtrain {mxtrain.__version__} reads up to {known}; use the mxtrain "
        "that wrote it, or a newer one"
    )
