"""The pictures that `--drop` leaves, known before they are divided: damaged ones and copies go.

All are prepared once, in the order of the source, into a file beside OUT, each behind its fingerprint; of what is left
the pack takes them from there. That file has a journal of its own, so that a run that was killed goes on in either
half. Owns this file, and which pictures go; what makes two of them copies is `fingerprints.py`'s.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError
from mxtrain.data.decode import decoding
from mxtrain.data.masks import mask_format
from mxtrain.data.packing import journal, resume
from mxtrain.data.packing.options import COPIES, DAMAGED, Options
from mxtrain.data.packing.pack_run import BadItems, PackRun, Progress, write_all
from mxtrain.data.packing.pictures import fingerprints
from mxtrain.data.packing.pictures.images import PackedItem
from mxtrain.data.packing.plan import PREPARED, OutputSplit, beside
from mxtrain.data.packing.preparation import prepare_items
from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import RecordFile
from mxtrain.data.records.record_index import scan
from mxtrain.data.records.record_writer import aside
from mxtrain.data.records.recordio_file import RecordIOFile
from mxtrain.data.sources.item import Item, Source

COPY, NEAR_COPY = "copy", "near copy"
_THUMBNAIL_BYTES = 3 * fingerprints.THUMBNAIL_SIDE**2
# What is stored before a picture, and before the notes that come first there.
_LAYOUT = np.dtype(
    [("digest", "<u8"), ("hash", "<u8"), ("thumbnail", "u1", _THUMBNAIL_BYTES), ("num_notes", "<u4")]
)


class DroppedItem(NamedTuple):
    """A picture that is left out."""

    name: str
    why: str  # COPY, NEAR_COPY or DAMAGED
    detail: str  # the picture that it is a copy of, or what the damage is


class SiftedSource(NamedTuple):
    """A source without what is dropped, its pictures prepared; `fetch` takes the place of preparing them."""

    source: Source
    dropped: Sequence[DroppedItem]
    bad: BadItems  # that are not dropped
    digest: str  # of all payloads that are left

    @staticmethod
    def fetch(stored: bytes) -> PackedItem:
        """Return a picture as it was prepared."""
        (head,) = np.frombuffer(stored, _LAYOUT, 1)
        start = _LAYOUT.itemsize + int(head["num_notes"])
        return PackedItem(stored[start:], tuple(json.loads(stored[_LAYOUT.itemsize : start])))


@contextlib.contextmanager
def sifted(
    source: Source,
    out: Path,
    options: Options,
    way: str,
    prepare: Callable[[bytes], PackedItem],
    progress: Progress,
) -> Iterator[SiftedSource]:
    """A block that packs what is left of the source; the prepared pictures are there as long as it lasts.

    `prepare` need not decode what it returns: that is done here. `way` is the way of restart intervals.
    """
    splits = [OutputSplit(source.items, [beside(out, PREPARED)])]
    with journal.opened(beside(out, ".prepared.journal")) as kept, contextlib.ExitStack() as files:
        described = resume.description(splits, source, options, way, kept.path.parent)
        run = resume.start_or_resume(kept, described, splits, source, files)
        remaining = resume.remaining(splits, run)
        fingerprinted = functools.partial(_fingerprinted, prepare=prepare)
        write_all(
            run,
            kept,
            prepare_items(remaining, source, fingerprinted, options.num_workers),
            source.noun,
            progress,
        )
        kept.add(run.checkpoint())
        yield _of_run(source, run, options.drop)
        files.pop_all()  # none of them gets its name
        for file in run.files:
            file.writer.discard()


def _fingerprinted(data: bytes, prepare: Callable[[bytes], PackedItem]) -> PackedItem:
    """Return a picture as it is packed behind its fingerprint; BadPicture where it cannot be decoded to its end."""
    payload, notes = prepare(data)
    picture = mask_format.picture_of(payload)
    found = fingerprints.of_pixels(decoding.decode(picture))
    told = json.dumps(notes).encode()
    head = np.array([(fingerprints.digest(picture), found.hash, found.thumbnail.ravel(), len(told))], _LAYOUT)
    return PackedItem(b"".join([head.tobytes(), told, payload]))


def _of_run(source: Source, run: PackRun, drop: Sequence[str]) -> SiftedSource:
    """Return what is left of a source whose items are all prepared."""
    if not run.files[0].num_records:
        raise DataError(f"--drop leaves nothing to pack: all {source.noun} are damaged")
    file = RecordIOFile(aside(run.files[0].path))
    index = scan(file)
    records = RecordFile(file, index, None)
    is_bad = {position for position, _, _ in run.bad}
    items = [item for position, item in enumerate(source.items) if position not in is_bad]
    dropped = [DroppedItem(name, DAMAGED, reason) for _, name, reason in run.bad if DAMAGED in drop]
    prints = np.frombuffer(
        b"".join(_payload_start(file, offset) for offset in index.offsets.tolist()), _LAYOUT
    )
    copies = _copies(prints) if COPIES in drop else {}

    def name_of(number: int) -> str:
        return plain_text.printable(source.display_name(items[number]))

    for number, (first, why) in sorted(copies.items()):
        is_other = ", of another label" if items[number].label != items[first].label else ""
        dropped.append(DroppedItem(name_of(number), why, f"{name_of(first)}{is_other}"))
    left = [number for number in range(len(items)) if number not in copies]

    def read(item: Item) -> bytes:
        return bytes(records.read(item.location).payload)

    of_left = Source(
        [items[number]._replace(location=number) for number in left],
        read,
        source.class_names,
        files=source.files,
        holds_masks=source.holds_masks,
        origin_of=lambda item: source.display_name(items[item.location]),
    )
    digest = hashlib.blake2b(prints["digest"][left].tobytes(), digest_size=16).hexdigest()
    return SiftedSource(of_left, dropped, [] if DAMAGED in drop else run.bad, digest)


def _payload_start(file: RecordIOFile, offset: int) -> bytes:
    """Return the fingerprint at the start of a record, without reading the picture behind it."""
    start, _ = file.start(offset)
    at = recordio.parse_header(start).payload_start
    if len(start) < at + _LAYOUT.itemsize:  # behind many labels
        start, _, _ = file.data(offset)
    return bytes(start[at : at + _LAYOUT.itemsize])


def _copies(prints: Any) -> dict[int, tuple[int, str]]:
    """Return for each picture that is a copy of an earlier one the first such, and COPY or NEAR_COPY."""
    digests, hashes, thumbnails = map(np.ascontiguousarray, (prints[name] for name in prints.dtype.names[:3]))
    exact, near = fingerprints.pairs_of(digests, hashes, thumbnails, np.zeros(len(prints), np.int64))
    found = {later: (first, NEAR_COPY) for first, later in near}
    found.update({later: (first, COPY) for first, later in exact})
    return found
