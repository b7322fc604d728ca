"""The places that answers go to: stdout, as they come, or a file that is there whole or not at all.

Owns `--out`, and features as NumPy's files, `.npz` and `.npy`, written as they come. What a row of text says is
`row_formats.py`'s.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Any, Callable, Iterator, Mapping

import numpy as np

from mxtrain.core import durable
from mxtrain.core.errors import UsageError
from mxtrain.inference.row_formats import AROUND, FORMATS, Row, shown_name

Write = Callable[[str, Mapping[str, Any]], None]  # an answer, after the name of its input
OF_FEATURES = ("npz", "npy")
_OF_SUFFIX = {".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".npz": "npz", ".npy": "npy"}


def format_of(requested: str | None, out: Path | None, of_features: bool) -> str:
    """Return the format: as asked, or by the name of the file, or what suits a terminal or a pipe."""
    if requested in OF_FEATURES and out is None:
        raise UsageError(f"--format {requested}: is no text; give --out FILE")
    by_name = _OF_SUFFIX.get(out.suffix.lower()) if out else None
    if requested and by_name in OF_FEATURES and requested != by_name:
        raise UsageError(
            f"--out {out}: is {by_name} by its name, and --format says {requested}; leave one of them out"
        )
    format_name = requested or by_name or ("jsonl" if of_features else _for_people(out))
    if of_features and format_name in ("lines", "table"):
        raise UsageError(f"--embed: features are no {format_name}; give --format jsonl, csv, npz or npy")
    if format_name in OF_FEATURES and not of_features:
        raise UsageError(f"--out {out}: holds features; give --embed, or a name that ends in .csv or .jsonl")
    return format_name


def _for_people(out: Path | None) -> str:
    return "table" if out is None and sys.stdout.isatty() else "lines"


@contextlib.contextmanager
def opened(out: Path | None, format: str, row: Row | None) -> Iterator[Write]:
    """Yield the function that writes answers, to stdout where `out` is None; `row` makes text of them."""
    if out is None:
        assert row is not None and format in FORMATS
        begin, end = AROUND.get(format, ("", ""))
        print(begin, end="")
        yield _to_stdout(row)
        print(end, end="", flush=True)
        return
    with durable.whole_file(out) as file:
        if row is None:
            with _features(file, format) as write:
                yield write
        else:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            begin, end = AROUND.get(format, ("", ""))
            text.write(begin)
            yield lambda name, shown: _put(text, row(name, shown))
            text.write(end)
            text.flush()
            text.detach()


def _to_stdout(row: Row) -> Write:
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")  # a class name that this terminal has no characters for
    return lambda name, shown: print(row(name, shown), end="", flush=True)


def _put(file: IO[str], text: str) -> None:
    file.write(text)


@contextlib.contextmanager
def _features(file: IO[bytes], format: str) -> Iterator[Write]:
    """Yield a function that takes features; the files of an archive need their shapes first, so rows wait on disk."""
    names: list[str] = []
    with tempfile.TemporaryFile(dir=Path(file.name).parent) as rows:

        def write(name: str, shown: Mapping[str, Any]) -> None:
            names.append(shown_name(name))
            rows.write(np.ascontiguousarray(shown["features"], np.float32).tobytes())

        yield write
        width = rows.tell() // (4 * len(names)) if names else 0
        if format == "npy":
            _copy_array(rows, (len(names), width), file)
            return
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            with archive.open("features.npy", "w", force_zip64=True) as member:
                _copy_array(rows, (len(names), width), member)
            with archive.open("names.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.array(names, np.str_))  # type: ignore[no-untyped-call]


def _copy_array(rows: IO[bytes], shape: tuple[int, int], to: IO[bytes]) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(to, header)  # type: ignore[no-untyped-call]
    rows.seek(0)
    shutil.copyfileobj(rows, to, 1 << 20)
