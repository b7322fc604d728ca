"""Samples by what a flag names: .rec files, or a source where it lies.

Owns the choice. What reads sources is imported where there is one: a start with .rec files need not load it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mxtrain.data.interfaces import Records
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.storage.options import DEFAULTS, StorageOptions


class Labels(NamedTuple):
    """The labels that a task needs: one a picture, or these; of texts the type of source that has them."""

    are_boxes: bool = False
    are_masks: bool = False
    are_several: bool = False
    text_type: str = ""


ONE_LABEL = Labels()


def open_samples(text: str, labels: Labels = ONE_LABEL, storage: StorageOptions = DEFAULTS) -> Records:
    """Open samples by what a flag names: .rec files, or what `pack` makes such of, where it lies.

    Args:
        text: one .rec or several, a pattern, or the path of a source.
        labels: those that are needed.
        storage: of .rec files in object stores.

    Returns:
        The records; DataError or UsageError where nothing can be made of the text.
    """
    path = Path(text)
    if not is_source(text):
        return open_set(text, storage)
    from mxtrain.data.sources import recognise, source_records

    if path.is_dir() and recognise.recognise(path) == "rec":
        return open_set(",".join(sorted(str(each) for each in path.glob("*.rec"))))
    return source_records.open_records(path, labels)


def is_source(text: str) -> bool:
    """Return whether a flag names something on this machine that is no .rec file."""
    path = Path(text)
    return path.exists() and path.suffix.lower() != ".rec"
