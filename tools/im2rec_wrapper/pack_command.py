"""The command line of `pack`. The packing itself is imported once the flags are parsed."""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator

from mxtrain.config.checks.bounds import MOST_LIST_LENGTH
from mxtrain.config.components import choices
from mxtrain.config.flags.arguments import LARGEST_SEED
from mxtrain.config.values import addresses
from mxtrain.data.sources.source_types import SOURCE_TYPES

from .arguments import fraction, whole_number

if TYPE_CHECKING:
    from mxtrain.data.packing.options import Options


def add(commands: Any) -> None:
    """Add the command `pack` to a parser's commands."""
    pack = commands.add_parser(
        "pack",
        help="pack images or text from a folder, a list, a database or an archive",
        description="Pack SOURCE into OUT/data.rec, with --split into OUT/train.rec and OUT/val.rec; beside each its "
        ".idx and .classes.tsv (line k: name of class k, number of its images) or, for text, .tokens.json. Images go "
        "in without loss, in a shuffled order that depends on seed and names alone; each is read to its end to check "
        "it, and bad ones are listed in OUT.bad.tsv. The same command resumes an interrupted run.",
    )
    pack.add_argument("source", metavar="SOURCE", type=Path, help="see docs/packing.md for what it may be")
    pack.add_argument(
        "out",
        metavar="OUT",
        type=addresses.path,
        help="folder, or without --split a name ending in .rec; an address, as s3://bucket/photos, is one in a store",
    )
    _add_source(pack)
    _add_columns(pack)
    _add_ids(pack)
    _add_division(pack)
    _add_images(pack)
    pack.add_argument(
        "--tokenizer",
        metavar="NAME",
        default="bytes",
        help="of text: bytes; bpe:vocabulary=8192, learnt from the training part; a tokenizer.json; or "
        "package.module:callable from text to ids (default: bytes)",
    )
    pack.add_argument(
        "--skip-bad", action="store_true", help="leave bad items out instead of ending with exit code 3"
    )
    pack.add_argument(
        "--workers",
        metavar="N",
        type=whole_number(1),
        help="threads that read (default: at least 16; any number gives the same bytes)",
    )
    pack.set_defaults(run=_run)


def _add_source(pack: Any) -> None:
    pack.add_argument(
        "--from",
        dest="source_type",
        choices=SOURCE_TYPES,
        metavar="KIND",
        help=f"what SOURCE is: {', '.join(SOURCE_TYPES)} (default: recognised)",
    )
    pack.add_argument(
        "--root",
        metavar="FOLDER",
        type=Path,
        help="where the paths of a list begin (default: its own folder)",
    )
    pack.add_argument(
        "--multi-label",
        action="store_true",
        help="several labels an image: numbers go in as they are, names become a 0 or 1 for each class",
    )


def _add_columns(pack: Any) -> None:
    pack.add_argument(
        "--target",
        metavar="NAMES",
        default="",
        help="of arrays: the columns to be predicted, joined by commas (default: target, label, y or class)",
    )
    pack.add_argument(
        "--inputs",
        metavar="NAMES",
        default="",
        help="of arrays: the columns to predict from (default: all others)",
    )
    pack.add_argument("--exclude", metavar="NAMES", default="", help="of arrays: columns that are left out")
    pack.add_argument(
        "--categories",
        metavar="NAMES",
        default="",
        help="of arrays: columns of categories, words or numbers, each of which is an input of its own (one-hot); of "
        "ids: columns of ids",
    )
    pack.add_argument(
        "--missing",
        metavar="RULE",
        default="refuse",
        help="of arrays: what an empty cell or NaN becomes: refuse | mean (of its column) | a number; an input beside "
        "the column says where one is missing",
    )
    pack.add_argument(
        "--sample-weight",
        metavar="NAME",
        default="",
        help="of arrays: the column that says how much each sample counts in the loss (default: all alike)",
    )


def _add_ids(pack: Any) -> None:
    pack.add_argument(
        "--log-columns",
        metavar="NAMES",
        default="",
        help="of arrays or ids: columns of numbers of which the logarithm is taken, log(1 + x)",
    )
    pack.add_argument("--lists", metavar="NAMES", default="", help="of ids: columns of lists of ids")
    pack.add_argument(
        "--list-separator",
        metavar="CHARACTER",
        default="|",
        help="of ids in a text: what is between the ids of a list (default: |)",
    )
    pack.add_argument(
        "--list-length",
        metavar="N",
        type=whole_number(1, MOST_LIST_LENGTH),
        default=100,
        help="of ids: how many of a list count at most, the last ones (default: 100)",
    )
    pack.add_argument(
        "--column-names",
        metavar="NAMES",
        default="",
        help="of ids in a text that has no line of names: those of its columns, or criteo",
    )
    pack.add_argument(
        "--shared-embedding",
        metavar="COLUMNS",
        default="",
        help="of ids: columns that have the rows of another, as in user=friend/follower,item=last_item",
    )


def _add_division(pack: Any) -> None:
    pack.add_argument(
        "--split", metavar="SHARE", type=fraction, help="part of each class that goes to train.rec, as in 0.9"
    )
    pack.add_argument(
        "--shards",
        metavar="N",
        type=whole_number(1, 99999),
        default=1,
        help="files of each part (default: 1)",
    )
    pack.add_argument(
        "--seed",
        type=whole_number(0, LARGEST_SEED),
        default=0,
        help="of the split and the order (default: 0)",
    )
    pack.add_argument("--no-shuffle", action="store_true", help="keep the source's order")


def _add_images(pack: Any) -> None:
    pack.add_argument(
        "--resize",
        metavar="SHORT",
        type=whole_number(1),
        help="shrink larger images to this short side, in pixels",
    )
    pack.add_argument(
        "--quality",
        metavar="Q",
        type=whole_number(1, 100),
        help="re-encode every image as a JPEG of this quality (default: only those that shrink, at 95)",
    )
    pack.add_argument(
        "--restart-intervals",
        action="store_const",
        const=True,
        help="end with exit code 2 where restart markers cannot be put into JPEGs, losing nothing (default: do "
        "it where this machine can)",
    )
    pack.add_argument(
        "--no-restart-intervals",
        dest="restart_intervals",
        action="store_const",
        const=False,
        help="leave JPEGs that need no other change as they are, byte for byte",
    )
    pack.add_argument(
        "--verify",
        choices=("decode", "structure"),
        default="decode",
        help="read every image to its end, or of JPEG and PNG files only follow the structure (default: decode)",
    )
    pack.add_argument(
        "--drop",
        metavar="WORDS",
        type=_drop,
        default=(),
        help="leave out, before the split, copies (of the earliest in the source, as check finds them), damaged "
        "pictures, or copies,damaged; OUT.dropped.tsv lists them",
    )
    pack.add_argument("--quiet", action="store_true", help="show no progress, and print one line at the end")


def _drop(text: str) -> tuple[str, ...]:
    """Parse what is left out: names joined by commas, in one order, so that the order typed does not matter."""
    words = text.split(",")
    if not set(words) <= set(choices.DROPPED):
        raise argparse.ArgumentTypeError(f"'{text}' is not copies, damaged, or both joined by a comma")
    return tuple(name for name in choices.DROPPED if name in words)


def _run(parsed: argparse.Namespace) -> None:
    from mxtrain.data.packing.options import Options

    options = Options(
        source_type=parsed.source_type,
        root=parsed.root,
        multi_label=parsed.multi_label,
        target=parsed.target,
        inputs=parsed.inputs,
        exclude=parsed.exclude,
        categories=parsed.categories,
        missing=parsed.missing,
        sample_weight=parsed.sample_weight,
        log_columns=parsed.log_columns,
        lists=parsed.lists,
        list_separator=parsed.list_separator,
        list_length=parsed.list_length,
        column_names=parsed.column_names,
        shared_embedding=parsed.shared_embedding,
        train_share=parsed.split,
        num_shards=parsed.shards,
        shuffle=not parsed.no_shuffle,
        seed=parsed.seed,
        short_side=parsed.resize,
        quality=parsed.quality,
        restart_intervals=parsed.restart_intervals,
        verify=parsed.verify,
        drop=parsed.drop,
        tokenizer=parsed.tokenizer,
        skip_bad=parsed.skip_bad,
        num_workers=parsed.workers,
    )
    with _log_on_stderr():
        if isinstance(parsed.out, addresses.Address):
            _pack_into_store(parsed.source, parsed.out, options, parsed.quiet)
        else:
            _pack(parsed.source, parsed.out, options, parsed.quiet)


@contextlib.contextmanager
def _log_on_stderr() -> Iterator[None]:
    """A block in which what packing logs is told on stderr."""
    log, handler = logging.getLogger("mxtrain.data"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("im2rec_wrapper: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _pack(source: Path, out: Path, options: Options, is_quiet: bool) -> None:
    """Pack, and print the summary, of which there is one line where `is_quiet`."""
    from mxtrain.data.packing.pack import pack
    from mxtrain.report.sinks.progress import with_progress

    summary = pack(source, out, options, functools.partial(with_progress, shows=not is_quiet))
    print(*(summary[:1] if is_quiet else summary), sep="\n")


def _pack_into_store(source: Path, out: addresses.Address, options: Options, is_quiet: bool) -> None:
    """Pack on this machine's disk, where the same command resumes, and upload what was packed."""
    from mxtrain.data.records.record_upload import upload
    from mxtrain.data.storage.options import DEFAULTS

    folder = DEFAULTS.cache_folder / "packs" / hashlib.sha256(str(out).encode()).hexdigest()[:16]
    is_file = out.suffix == ".rec"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _pack(source, folder / out.name if is_file else folder, options, is_quiet)
    for rec in sorted(folder.glob("*.rec")):
        print(f"wrote {upload(rec, out.parent if is_file else out)}", flush=True)
    shutil.rmtree(folder)
