"""Where a run begins: at its start, or where an interrupted one that would have written the same bytes had come to."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
from pathlib import Path
from typing import Iterator, Sequence

import cv2

import mxtrain
from mxtrain.data.record_writer import RecordWriter, Written
from tools.im2rec_wrapper import options as asked
from tools.im2rec_wrapper.journal import Checkpoint, Description, Journal
from tools.im2rec_wrapper.options import Options
from tools.im2rec_wrapper.outcomes import in_order
from tools.im2rec_wrapper.plan import Part
from tools.im2rec_wrapper.run import File, Run, digest
from tools.im2rec_wrapper.sources.item import Item, Source, file_stamp

_NUM_LOOKING = 16  # threads that look at files, for a cold disk


def describe(parts: Sequence[Part], found: Source, options: Options, folder: Path) -> Description:
    """All that the bytes written depend on, as JSON; but the items' own files are in a checkpoint's stamps.

    Names of files are from the journal's `folder` on.
    """
    items = hashlib.blake2b(digest_size=16)
    for item in all_items(parts):
        items.update(repr((item.name, item.label)).encode("utf-8", "backslashreplace"))
    return {
        "files": [os.path.relpath(path, folder) for part in parts for path in part.paths],
        "the version": [mxtrain.__version__, cv2.__version__],
        "the source": [items.hexdigest(), *[list(file_stamp(path)) for path in found.files]],
        **{f"--{name.replace('_', '-')}": value for name, value in asked.of_bytes(options).items()},
    }


def begin(
    journal: Journal,
    description: Description,
    parts: Sequence[Part],
    found: Source,
    whole_files: contextlib.ExitStack,
) -> Run:
    checkpoint = journal.checkpoint(description)
    if checkpoint:
        done = itertools.islice(all_items(parts), checkpoint.num_done)
        stamps = digest(in_order(lambda some: [found.stamp(item) for item in some], done, _NUM_LOOKING))
        if stamps.hexdigest() == checkpoint.stamps:
            run = _opened(parts, checkpoint, whole_files)
            run.replay(checkpoint, stamps)
            print(f"im2rec_wrapper: going on after {run.num_done} of {run.num_planned}", file=sys.stderr)
            return run
        print("im2rec_wrapper: starting anew: since the interrupted run changed the source", file=sys.stderr)
    run = _opened(parts, None, whole_files)
    journal.begin(description)
    return run


def all_items(parts: Sequence[Part]) -> Iterator[Item]:
    return itertools.chain.from_iterable(part.items for part in parts)


def remaining(parts: Sequence[Part], run: Run) -> Iterator[Item]:
    return itertools.islice(all_items(parts), run.num_done, None)


def _opened(parts: Sequence[Part], checkpoint: Checkpoint | None, whole_files: contextlib.ExitStack) -> Run:
    paths = [path for part in parts for path in part.paths]
    states = checkpoint.files if checkpoint else [(Written(), 0)] * len(paths)
    files = [
        File(path, whole_files.enter_context(RecordWriter(path, Written(*written))), num_payload_bytes)
        for path, (written, num_payload_bytes) in zip(paths, states)
    ]
    return Run(parts, files)
