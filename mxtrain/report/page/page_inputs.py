"""The files that a page and pictures of runs are made of, which none of these may replace."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Iterator, Sequence

from mxtrain.config.components import import_path
from mxtrain.core import outputs
from mxtrain.core.errors import DataError
from mxtrain.data import input_files
from mxtrain.data.records.record_file import with_sidecars
from mxtrain.report.history import History


def refuse(out: Path, histories: Sequence[History]) -> None:
    """Refuse a file to write that is a part of one of the runs, or of its data, with a UsageError."""
    if out.exists():
        for history in histories:
            outputs.refuse_part_of_run("--out", out, history.folder)
            for path in _data(history):
                outputs.refuse_input("--out", out, path)


def _data(history: History) -> Iterator[Path]:
    """Yield the files of --train and --val, as far as they are there."""
    texts = [str(history.config.get(name) or "") for name in ("train", "val")]
    for text in texts:
        parts = [] if import_path.is_import_path(text) else text.split(",")
        for part in filter(None, map(str.strip, parts)):
            with contextlib.suppress(DataError):
                for path in input_files.matching(Path(part)):
                    yield from with_sidecars(path) if path.suffix else [path]
