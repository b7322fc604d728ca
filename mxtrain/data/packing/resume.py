"""The start of a pack: from the first item, or from the checkpoint of an interrupted run of the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
from pathlib import Path
from typing import Iterator, Sequence

import mxtrain
from mxtrain.core.opencv import cv2
from mxtrain.data.packing import options as pack_options
from mxtrain.data.packing.journal import Description, Journal, PackCheckpoint
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack_run import OutputFile, PackRun, digest
from mxtrain.data.packing.plan import OutputSplit
from mxtrain.data.packing.preparation import map_in_order
from mxtrain.data.records.record_writer import RecordWriter, WriterProgress
from mxtrain.data.sources.item import Item, Source, file_stamp

logger = logging.getLogger(__name__)

_NUM_STAMPING = 16  # threads that stat files, for a cold disk


def description(
    splits: Sequence[OutputSplit], source: Source, options: Options, way: str, folder: Path
) -> Description:
    """Return all that the bytes written depend on, as JSON, apart from the items' own files: a checkpoint stamps those.

    `way` is the way of restart intervals, or the tokenizer of text. File names are relative to `folder`, the journal's.
    """
    items = hashlib.blake2b(digest_size=16)
    for item in all_items(splits):
        items.update(repr((item.name, item.label)).encode("utf-8", "backslashreplace"))
    return {
        "files": [os.path.relpath(path, folder) for split in splits for path in split.paths],
        "the tokenizer" if source.holds_text else "the way of restart intervals": way,
        "the version": [mxtrain.__version__, cv2.__version__],
        "the source": [items.hexdigest(), *[list(file_stamp(path)) for path in source.files]],
        **{
            f"--{name.replace('_', '-')}": value
            for name, value in pack_options.affecting_bytes(options).items()
        },
    }


def start_or_resume(
    journal: Journal,
    description: Description,
    splits: Sequence[OutputSplit],
    source: Source,
    whole_files: contextlib.ExitStack,
) -> PackRun:
    """Return the run, restored from the journal's last checkpoint where that is of the same bytes.

    `whole_files` closes the files of the run: as whole ones if its block ends well.
    """
    checkpoint = journal.checkpoint(description)
    if checkpoint:
        done = itertools.islice(all_items(splits), checkpoint.num_done)
        stamps = digest(map_in_order(lambda some: [source.stamp(item) for item in some], done, _NUM_STAMPING))
        if stamps.hexdigest() == checkpoint.stamps:
            run = _opened(splits, checkpoint, whole_files)
            run.replay(checkpoint, stamps)
            logger.info("resuming after %d of %d", run.num_done, run.num_planned)
            return run
        logger.warning("starting from the beginning: the source has changed since the interrupted run")
    run = _opened(splits, None, whole_files)
    journal.start(description)
    return run


def all_items(splits: Sequence[OutputSplit]) -> Iterator[Item]:
    """Return the items of all data sets, in the order in which they are packed."""
    return itertools.chain.from_iterable(split.items for split in splits)


def remaining(splits: Sequence[OutputSplit], run: PackRun) -> Iterator[Item]:
    """Return the items that the run has not packed yet."""
    return itertools.islice(all_items(splits), run.num_done, None)


def _opened(
    splits: Sequence[OutputSplit], checkpoint: PackCheckpoint | None, whole_files: contextlib.ExitStack
) -> PackRun:
    paths = [path for split in splits for path in split.paths]
    states = checkpoint.files if checkpoint else [(WriterProgress(), 0)] * len(paths)
    files = [
        OutputFile(
            path, whole_files.enter_context(RecordWriter(path, WriterProgress(*written))), num_payload_bytes
        )
        for path, (written, num_payload_bytes) in zip(paths, states)
    ]
    return PackRun(splits, files)
