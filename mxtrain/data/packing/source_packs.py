"""The packs that `--pack` keeps in a folder: made of a source once, and found again as long as it holds the same.

Beside FOLDER/train.rec lies train.packed.jsonl: what the source was opened as, and a line for each of its items, with
name, label and the state of its file. It is written first, and so a .rec without one is somebody else's. Owns this list
and whose turn it is; packing, and going on after a kill, is `pack.py`'s.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Sequence

from mxtrain.core import durable, plain_text
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import made_folder, pack_opened
from mxtrain.data.packing.pack_run import Progress, unseen
from mxtrain.data.packing.plan import beside
from mxtrain.data.records.record_file import with_sidecars
from mxtrain.data.records.record_writer import Replacement, open_alone
from mxtrain.data.sources.item import Source, file_stamp
from mxtrain.data.sources.opening import open_source
from mxtrain.data.sources.samples import Labels
from mxtrain.data.sources.source_records import type_of

logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.2  # between two looks whether the process that packs has ended


class WantedPack(NamedTuple):
    """The source that a pack is to be made of, and what for."""

    flag: str  # --train or --val
    path: Path
    labels: Labels
    skip_bad: int  # how many bad items may be left out


def packed(
    wanted: WantedPack,
    folder: Path,
    progress: Progress = unseen,
    may_go_on: Callable[[], None] = lambda: None,
) -> Path:
    """Return the .rec in `folder` that is the pack of a source, which is made if it is not there.

    Args:
        wanted: the source, and what its samples are for.
        folder: of the packs, which may not be there yet.
        progress: goes through the items that are packed.
        may_go_on: raises what ends the wait for another process that packs.

    Returns:
        The path; DataError where the source has changed since, UsageError where a file of that name is no such pack.
    """
    rec = folder / f"{wanted.flag.lstrip('-')}.rec"
    _refuse_inside(wanted, folder)
    source_type, options = type_of(wanted.path, wanted.labels)
    source = open_source(wanted.path, source_type, options)
    # Of many files this takes seconds: not in turns.
    listed = _listed(source, source_type, options.multi_label)
    refusal = lambda error: f"--pack: {durable.cannot_write(folder, error)}; give another folder"  # noqa: E731
    with made_folder(folder, refusal), _turn(rec, may_go_on):
        if _is_there(wanted, rec, listed):
            logger.info("%s %s: its pack %s is there", wanted.flag, wanted.path, rec)
            return rec
        logger.info("%s %s: is packed into %s", wanted.flag, wanted.path, rec)
        with Replacement(_list_path(rec)) as file:
            file.write("".join(f"{line}\n" for line in listed).encode())
        of_pack = Options(
            source_type=source_type, multi_label=options.multi_label, skip_bad=wanted.skip_bad > 0
        )
        for line in pack_opened(wanted.path, source, rec, of_pack, progress):
            logger.info("%s", line)
        _refuse_many_bad(wanted, rec)
        _refuse_changed(wanted, rec, listed, _listed(source, source_type, options.multi_label))
        return rec


def _list_path(rec: Path) -> Path:
    return rec.with_suffix(".packed.jsonl")


def _refuse_inside(wanted: WantedPack, folder: Path) -> None:
    source = Path(os.path.realpath(wanted.path))
    if source.is_dir() and source in (own := Path(os.path.realpath(folder)), *own.parents):
        raise UsageError(f"--pack {folder}: lies in {wanted.flag} {wanted.path}; give a folder outside of it")


@contextlib.contextmanager
def _turn(rec: Path, may_go_on: Callable[[], None]) -> Iterator[None]:
    """A block of one process at a time, of several workers on a host that begin at once."""
    path, is_told = rec.with_suffix(".packing"), False
    while True:
        may_go_on()
        try:
            file = open_alone(path)
            break
        except BlockingIOError:
            if not is_told:
                logger.info("%s: another process packs it; waiting for that", rec)
            is_told = True
            time.sleep(WAIT_SECONDS)
        except OSError as error:
            raise UsageError(f"--pack: {durable.cannot_write(path, error)}; give another folder") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _listed(source: Source, source_type: str, multi_label: bool) -> list[str]:
    """Return the lines that are the same as long as the source is: what it is, and each item."""
    files = [[path.name, *file_stamp(path)[:2]] for path in source.files]
    first = {"type": source_type, "several labels": multi_label, "files": files}
    lines = [json.dumps({**first, "class list": list(source.class_names or ())})]
    for item in source.items:
        stamp = [list(each[:2]) for each in source.stamps(item)]
        lines.append(json.dumps([item.name, item.label, *stamp]))
    return lines


def _is_there(wanted: WantedPack, rec: Path, listed: Sequence[str]) -> bool:
    """Return whether the pack is there; DataError where it is one of another state of the source."""
    try:
        before = plain_text.split_lines(_list_path(rec).read_text(encoding="utf-8"))
    except FileNotFoundError:
        if rec.exists():
            raise UsageError(
                f"--pack: {rec} is there, and none that --pack has made; give another folder, or name it as "
                f"{wanted.flag}, without --pack"
            ) from None
        return False
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{_list_path(rec)}: cannot be read ({error}); remove it and {rec}") from None
    if not rec.exists():
        return False
    _refuse_changed(wanted, rec, [line for line in before if line], listed)
    return True


def _refuse_changed(wanted: WantedPack, rec: Path, before: Sequence[str], now: Sequence[str]) -> None:
    if list(before) == list(now):
        return
    raise DataError(
        f"{wanted.flag} {wanted.path}: is not what {rec} was packed of: {_difference(before, now)}; remove that file "
        "to pack it again, or give another --pack"
    )


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    """Return in words what has become of a source, with the first item of each."""
    try:
        first, *items = map(json.loads, before)
        other, *items_now = map(json.loads, now)
        known, found = ({repr(name): rest for name, *rest in each} for each in (items, items_now))
    except (ValueError, TypeError):
        return "its list is damaged"
    others = [f"another {name}" for name in other if other[name] != first.get(name)]
    if "another type" in others:
        return "another type"
    counted = [
        ("new", [name for name in found if name not in known]),
        ("gone", [name for name in known if name not in found]),
        ("changed", [name for name in found if name in known and found[name] != known[name]]),
    ]
    words = [f"{len(names)} {what} (as {min(names)})" for what, names in counted if names]
    return ", ".join(words or others) or "another order of its items"


def _refuse_many_bad(wanted: WantedPack, rec: Path) -> None:
    """Refuse a pack that has left out more items than may be, and remove it."""
    bad_list = beside(rec, ".bad.tsv")
    count = bad_list.read_bytes().count(b"\n") if bad_list.exists() else 0
    if count > wanted.skip_bad:
        for path in with_sidecars(rec):
            path.unlink(missing_ok=True)
        raise DataError(
            f"{wanted.flag} {wanted.path}: {count} bad items, all listed in {bad_list}, and --skip-bad is "
            f"{wanted.skip_bad}; mend or remove them, or raise it"
        )
