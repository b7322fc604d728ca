"""Opening a source of any type with the options of `pack`, and refusing those that it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.table_selection import NO_SELECTION, Selection

from .item import Source
from .recognise import recognise
from .source_types import SOURCE_TYPES, SourceType


class SourceOptions(NamedTuple):
    """Options of `pack` that only some types take."""

    root: Path | None = None  # the folder that the paths of a list are relative to
    multi_label: bool = False
    columns: Selection = NO_SELECTION  # of arrays


NO_OPTIONS = SourceOptions()


def open_source(path: Path, source_type: str | None = None, options: SourceOptions = NO_OPTIONS) -> Source:
    """Open a source; its `source_type` is recognised where it is None.

    With one of the flags of `columns` it is one of arrays. DataError where the source is missing or damaged, UsageError
    where an option does not fit its type.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist")
    try:
        if not path.is_dir():
            regular_files.require(path)
        has_columns = options.columns != NO_SELECTION
        known = SOURCE_TYPES[source_type or ("arrays" if has_columns else recognise(path))]
        _refuse_others(path, known, options)
        taken = {name: getattr(options, name) for name in known.options}
        source: Source = known.load()(path, **taken)
        return source
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from None


def _refuse_others(path: Path, known: SourceType, options: SourceOptions) -> None:
    """Refuse options that mean nothing to this type."""
    where = f"{path} is {known.help}"
    columns = {
        name: text for name, text in options.columns._asdict().items() if text != getattr(NO_SELECTION, name)
    }
    if columns and "columns" not in known.options:
        raise UsageError(
            f"--{next(iter(columns)).replace('_', '-')}: {where}, where it means nothing: leave it out"
        )
    if options.root and "root" not in known.options:
        raise UsageError(f"--root is for lists of files, and {where}: leave it out")
    if options.multi_label and "multi_label" not in known.options:
        raise UsageError(f"--multi-label: {where}, which has no more than one label an item: leave it out")
