"""Which checkpoint a command means, and whether a run may go on from it.

Needs no mxnet, so that a run that cannot go on is refused before anything is loaded or overwritten.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from mxtrain import config
from mxtrain.errors import DataError, UsageError
from mxtrain.train import checkpoint
from mxtrain.train.checkpoint import Checkpoint

# What may differ between a run and the checkpoint it goes on from: how long, where, how fast and how loud.
FREE = {
    *(field.name for section in (config.Layout, config.Keep) for field in dataclasses.fields(section)),
    *("train", "val", "val_resize", "loader", "loader_workers", "prefetch_mb", "verify", "skip_bad"),
    *("cache_dir", "normalize", "epochs", "max_steps"),
}


def find(run: config.Run) -> Checkpoint | None:
    """The checkpoint that `--resume` means; None for a fresh start."""
    if run.keep.resume == "never":
        return None
    if run.keep.resume == "auto":
        found = checkpoint.newest(Path(run.keep.out) / "checkpoints")
    else:
        found = Path(run.keep.resume), checkpoint.read_state(Path(run.keep.resume))
    if found is not None:
        _refuse_another_curve(run, *found)
    return found


def of_run(out: Path, which: str) -> Checkpoint:
    """A run folder's checkpoint: best, latest, or a path."""
    if not (out / "checkpoints").is_dir():
        raise UsageError(
            f"--run {out}: not a run folder, it has no checkpoints/; give the --out of mxtrain.fit"
        )
    if which not in ("best", "latest"):
        return Path(which), checkpoint.read_state(Path(which))
    found = (
        checkpoint.best(out / "checkpoints") if which == "best" else checkpoint.newest(out / "checkpoints")
    )
    if found is None:
        raise DataError(
            f"{out / 'checkpoints'}: holds no whole checkpoint; let mxtrain.fit finish an epoch first"
        )
    return found


def _refuse_another_curve(run: config.Run, path: Path, state: dict[str, Any]) -> None:
    """Going on with other hyper-parameters would be neither run."""
    saved, now = state["config"], config.to_flat(run)
    differing = [name for name in now if name not in FREE and saved.get(name) != now[name]]
    if differing:
        changes = ", ".join(
            f"--{name.replace('_', '-')} {saved.get(name)} -> {now[name]}" for name in differing
        )
        raise UsageError(
            f"{path}: is another run's ({changes}); give its values, another --out, or --resume never"
        )
