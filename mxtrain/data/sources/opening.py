"""Opening a source of any type with the options of `pack`, and refusing those that it does not take."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.table_selection import NO_SELECTION, OF_IDS, Selection
from mxtrain.data.sources.item import Source
from mxtrain.data.sources.recognise import UnknownSource, recognise
from mxtrain.data.sources.source_types import SOURCE_TYPES, SourceType


class SourceOptions(NamedTuple):
    """Options of `pack` that only some types take."""

    root: Path | None = None  # the folder that the paths of a list are relative to
    multi_label: bool = False
    columns: Selection = NO_SELECTION  # of arrays, and of tables with ids
    scratch: Path | None = None  # a folder for what memory should not hold; without one it does
    unlabelled: bool = False  # labels are neither looked at nor needed

    def columns_set(self) -> list[str]:
        """Return the names of the options of columns that are not left out."""
        return [
            name for name, value in self.columns._asdict().items() if value != getattr(NO_SELECTION, name)
        ]


NO_OPTIONS = SourceOptions()


def open_source(path: Path, source_type: str | None = None, options: SourceOptions = NO_OPTIONS) -> Source:
    """Open a source; its `source_type` is recognised where it is None.

    With one of the flags of `columns` it is one of arrays, or of ids where only those have the flag. DataError where
    the source is missing or damaged, UsageError where an option does not fit its type.
    """
    if not path.exists():
        raise DataError(f"{path} does not exist")
    try:
        if not path.is_dir():
            regular_files.require(path)
        columns = options.columns_set()
        of_columns = "ids" if set(columns) & set(OF_IDS) else "arrays"
        known = SOURCE_TYPES[source_type or (of_columns if columns else _recognised(path))]
        _refuse_others(path, known, options)
        taken = {name: getattr(options, name) for name in known.options}
        source: Source = known.load()(path, **taken)
        return source
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from None


def _recognised(path: Path) -> str:
    try:
        return recognise(path)
    except UnknownSource as unknown:
        raise UsageError(f"{unknown}; --from says which it is") from None


def _refuse_others(path: Path, known: SourceType, options: SourceOptions) -> None:
    """Refuse options that mean nothing to this type."""
    where = f"{path} is {known.help}"
    columns = options.columns_set()
    if "columns" in known.options:
        columns = [name for name in columns if name in OF_IDS and known.name != "ids"]
    if columns:
        raise UsageError(f"--{columns[0].replace('_', '-')}: {where}, where it means nothing: leave it out")
    if options.root and "root" not in known.options:
        raise UsageError(f"--root is for lists of files, and {where}: leave it out")
    if options.multi_label and "multi_label" not in known.options:
        raise UsageError(f"--multi-label: {where}, which has no more than one label an item: leave it out")
