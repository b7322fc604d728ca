"""The plan of a pack: which items go to which files under which names. Nothing is read or written here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays.array_fields import sidecar_path
from mxtrain.data.packing.options import Options
from mxtrain.data.records.record_file import classes_path, index_path
from mxtrain.data.records.record_writer import aside
from mxtrain.data.records.source_names import sources_path
from mxtrain.data.sources import order
from mxtrain.data.sources.item import Item
from mxtrain.data.text.tokenizers import FILE_NAME
from mxtrain.data.text.tokens import tokens_path

DROPPED, PREPARED = ".dropped.tsv", ".prepared.rec"  # behind OUT


class OutputSplit(NamedTuple):
    """One data set: its items in order, and its files, which get them in turn, so that shards differ by one at most."""

    items: Sequence[Item]
    paths: Sequence[Path]


def plan_outputs(items: Sequence[Item], out: Path, options: Options) -> list[OutputSplit]:
    """Return the data sets to write: one, or with --split two, each with the paths of its shards."""
    if options.train_share is None:
        path = out if out.suffix == ".rec" else out / "data.rec"
        chosen = order.shuffled(items, options.seed) if options.shuffle else items
        return [OutputSplit(chosen, _shards(path, options.num_shards))]
    if out.suffix == ".rec":
        raise UsageError(f"--split writes two files, so OUT must be a folder, not {out}")
    sides = order.split(items, options.train_share, options.seed, keeps_order=not options.shuffle)
    if not sides[1]:
        raise DataError("no class has the two items that a split needs: pack without --split")
    return [
        OutputSplit(side, _shards(out / name, options.num_shards))
        for side, name in zip(sides, ("train.rec", "val.rec"))
    ]


def all_outputs(splits: Sequence[OutputSplit], out: Path) -> list[Path]:
    """Return every file that a pack may write or remove."""
    recs = [path for split in splits for path in split.paths]
    whole = [file for rec in recs for file in beside_rec(rec)]
    prepared = beside(out, PREPARED)
    whole += [recs[0].parent / FILE_NAME, prepared, index_path(prepared)]
    whole += [beside(out, ".bad.tsv"), beside(out, DROPPED)]
    journals = [beside(out, ".journal"), beside(out, ".prepared.journal")]
    return [*whole, *map(aside, whole), *journals]


def beside_rec(rec: Path) -> tuple[Path, ...]:
    """Return a .rec and all files that a pack writes beside it."""
    return rec, index_path(rec), classes_path(rec), tokens_path(rec), sidecar_path(rec), sources_path(rec)


def beside(out: Path, suffix: str) -> Path:
    """Return the path of a file beside OUT, which may be a folder or a .rec."""
    named = out if out.name not in ("", "..") else out.resolve()
    return named.with_name(named.name + suffix)


def _shards(path: Path, count: int) -> list[Path]:
    if count == 1:
        return [path]
    return [path.with_name(f"{path.stem}-{number:05}-of-{count:05}.rec") for number in range(count)]
