"""The checkpoint that a command on a trained net means: one of a run folder, by its path, or several, to be averaged.

Owns the words of `--checkpoint`, and refusing to average what is not the same net. How weights are averaged is
`models/parameters/weights.py`'s. Needs no mxnet.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any, Iterable, Sequence

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import description_of
from mxtrain.core.errors import DataError, UsageError

OF_THE_NET = ("task", "model", "image_size", "channels", "window")  # flags
NOT_OF_THE_NET = ("class_weights",)  # of a description


def select(trained: Sequence[Path], which: str | None = None) -> Checkpoint:
    """Return the one checkpoint that is meant, or of several the first, with the `others` that it is averaged with.

    Each of `trained` is a checkpoint, or a run folder, of which `which` names one or several; the best if left out.
    """
    found = [each for folder in trained for each in _of(folder, which)]
    chosen = list({each.path.resolve(): each for each in found}.values())
    first, *others = chosen
    for other in others:
        _refuse_another_net(first, other)
    return first._replace(others=tuple(each.path for each in others))


def members(checkpoint: Checkpoint) -> list[Checkpoint]:
    """Return the checkpoints that one of `select` stands for, each alone."""
    others = [Checkpoint(path, directory.read_state(path)) for path in checkpoint.others]
    return [checkpoint._replace(others=()), *others]


def _of(trained: Path, which: str | None) -> list[Checkpoint]:
    if directory.is_checkpoint(trained):
        if which not in (None, "best"):
            raise UsageError(
                f"--checkpoint {which}: {trained} is a checkpoint already; leave one of them out"
            )
        return [_read(trained)]
    folder = directory.of_run(trained)
    words = ["best"] if which is None else [which] if Path(which).is_dir() else which.split(",")
    return [found for word in words for found in _named(trained, folder, word.strip())]


def _named(trained: Path, folder: Path, word: str) -> list[Checkpoint]:
    """Return what one word of --checkpoint means: best, latest, best:3, last:3, a step, a name in `folder`, a path."""
    selection, _, number = word.partition(":")
    if word not in ("best", "latest") and not re.fullmatch("(best|last):[1-9][0-9]*", word):
        by_step = directory.path_of(folder, int(word)) if word.isdecimal() else folder / word
        path = next((path for path in (by_step, Path(word)) if path.is_dir()), None)
        if path is None or not word:
            raise UsageError(
                f"--checkpoint {word}: no such folder, nor in {folder}; give best, latest, last:3, best:3, a step "
                "or a path"
            )
        return [_read(path)]
    if not folder.is_dir() and directory.has_begun(trained):
        raise _nothing_whole(folder)
    if not folder.is_dir():
        reason = "neither a run folder nor a checkpoint" if trained.exists() else "no such folder"
        raise UsageError(
            f"{trained}: {reason}; give the --out of mxtrain.fit, which has checkpoints/ in it, or one of those"
        )
    known: Iterable[Checkpoint] = (
        directory.ranked(folder) if selection == "best" else directory.intact(folder)
    )
    count = int(number or 1)
    chosen = list(itertools.islice(known, count))
    if not chosen:
        raise _nothing_whole(folder)
    if len(chosen) < count:
        raise DataError(
            f"--checkpoint {word}: {folder} holds {len(chosen)} such checkpoint{'s' * (len(chosen) > 1)}; give a lower "
            "number, or train with a higher --keep-last or --keep-best"
        )
    return chosen


def _read(path: Path) -> Checkpoint:
    try:
        return Checkpoint(path, directory.read_state(path))
    except DataError as error:
        raise DataError(f"{error}; give another checkpoint") from None


def _nothing_whole(folder: Path) -> DataError:
    damaged = sorted(path for path in folder.glob("step-*") if path.is_dir())
    if not damaged:
        return DataError(f"{folder}: holds no whole checkpoint; let mxtrain.fit finish an epoch first")
    try:
        directory.read_state(damaged[-1])
    except DataError as error:
        return DataError(
            f"{error}; no other checkpoint there is whole either: train again, or give another run"
        )
    return DataError(f"{folder}: changes while it is read; give the same command again")


def _refuse_another_net(one: Checkpoint, other: Checkpoint) -> None:
    for name in OF_THE_NET:
        values = [each.state["config"].get(name) for each in (one, other)]
        if values[0] != values[1]:
            flag = f"--{name.replace('_', '-')}"
            raise _other(one, other, f"{flag} {values[1]}, and not {values[0]}")
    ours, theirs = (_known(each) for each in (one, other))
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise _other(one, other, f"other {key.replace('_', ' ')}")


def _known(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        key: value for key, value in description_of(checkpoint.state).items() if key not in NOT_OF_THE_NET
    }


def _other(one: Checkpoint, other: Checkpoint, what: str) -> UsageError:
    return UsageError(
        f"{other.path}: cannot be averaged with {one.path}, it has {what}; give checkpoints of the same net and classes"
    )
