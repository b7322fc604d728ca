"""Which checkpoint a command means, and whether a run may go on from it.

Needs no mxnet, so that a run that cannot go on is refused before anything is loaded or overwritten.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

from mxtrain import config
from mxtrain.checkpoint import directory, locations
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import catalogue, layout
from mxtrain.config.names import is_async
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import fingerprint
from mxtrain.data.records import Dataset
from mxtrain.optim import early_stop, schedules
from mxtrain.optim.early_stop import Best

logger = logging.getLogger(__name__)

# What may differ between a run and the checkpoint it goes on from: how long, where, how fast and how loud.
FREE = {
    *(field.name for section in (config.Layout, config.Output) for field in dataclasses.fields(section)),
    *("train", "val", "val_resize", "loader", "loader_workers", "prefetch_mb", "verify", "skip_bad"),
    *("cache_dir", "normalize", "epochs", "max_steps", "max_bad_steps", "early_stop"),
    *("micro_batch", "accumulate", "pretrained", "teacher"),  # compared by what they come to
}
# Under these names a checkpoint keeps the fingerprints; those of old have none.
TRAINING_SET, VALIDATION_SET = "training_set", "validation_set"
ORIGINS = ("pretrained", "teacher")  # what `origins.describe` gives the checksums of


def describe(train: Dataset, val: Dataset | None, class_names: list[str]) -> dict[str, Any]:
    """What a checkpoint keeps of the data, to know it again."""
    return {
        "class_names": class_names,
        "num_samples": len(train),
        TRAINING_SET: fingerprint.of(train),
        VALIDATION_SET: None if val is None else fingerprint.of(val),
    }


def find(run: config.Run, data: dict[str, Any]) -> Checkpoint | None:
    """The checkpoint that `--resume` means for a run on `data`; None for a fresh start."""
    folder = Path(run.output.out) / "checkpoints"
    if run.output.resume == "never":
        return None
    if run.output.resume == "auto":
        found = directory.newest(folder)
    else:
        found = Path(run.output.resume), directory.read_state(Path(run.output.resume))
        _refuse_another_runs_folder(run, data, folder, found[0])
    if found is not None:
        _refuse_another_curve(run, data, *found)
        before, step = config.from_flat(found[1]["config"]), found[1]["step"]
        _warn_of_data_unknown(found, data)
        if not has_ended(run, data, found):
            _warn_of_another_length(run.optim, before.optim, data, step)
            if _is_scored_by_another(run.data, before.data, data, found[1]):
                _warn_of_other_scores(run.data, before.data, step)
    return found


def has_ended(run: config.Run, data: dict[str, Any], found: Checkpoint | None) -> bool:
    """Whether no step is left to a run that goes on from there; an evaluation may be."""
    if found is None:
        return False
    best, step = found[1].get("best"), found[1]["step"]
    is_over = early_stop.is_over(best and Best(*best), run.optim.early_stop)
    return is_over or step >= schedules.length(run.optim, data["num_samples"])[1]


def of_run(out: Path, which: str) -> Checkpoint:
    """A run folder's checkpoint, best or latest, or the one at a path."""
    if which not in ("best", "latest"):
        if not Path(which).is_dir():
            raise UsageError(f"--checkpoint {which}: no such folder; give best, latest or a path")
        return Path(which), directory.read_state(Path(which))
    folder = out / "checkpoints"
    if not folder.is_dir():
        raise UsageError(
            f"--run {out}: not a run folder, it has no checkpoints/; give the --out of mxtrain.fit"
        )
    found = directory.best(folder) if which == "best" else directory.newest(folder)
    if found is None:
        raise DataError(f"{folder}: holds no whole checkpoint; let mxtrain.fit finish an epoch first")
    return found


def _refuse_another_runs_folder(run: config.Run, data: dict[str, Any], folder: Path, found: Path) -> None:
    """A checkpoint from elsewhere says nothing of what is here already, which would become part of this run."""
    if found.resolve().parent != folder.resolve():
        here = directory.newest(folder)
        if here is not None:
            _refuse_another_curve(run, data, *here)


def _refuse_another_curve(run: config.Run, data: dict[str, Any], path: Path, state: dict[str, Any]) -> None:
    """Going on with other hyper-parameters or other data would be neither run."""
    # A flag that is younger than the checkpoint had its default; one that is gone had a meaning.
    saved, now = {**config.to_flat(config.Run()), **state["config"]}, config.to_flat(run)
    before = layout.batch_plan(config.from_flat(saved)).micro_batch
    differing = [
        f"--{name.replace('_', '-')} {saved[name]} -> {now.get(name, 'unknown here')}"
        for name in saved
        if name not in FREE and (name not in now or saved[name] != now[name])
    ]
    if before != layout.batch_plan(run).micro_batch:
        differing.append(f"micro-batches of {before} -> {layout.batch_plan(run).micro_batch}")
    if is_async(saved["kvstore"]) != is_async(now["kvstore"]):
        differing.append(f"--kvstore {saved['kvstore']} -> {now['kvstore']}")
    if state["num_samples"] != data["num_samples"]:
        differing.append(f"a training set of {state['num_samples']} -> {data['num_samples']} samples")
    if state["class_names"] != data["class_names"]:
        differing.append("other class names, or in another order")
    parts = fingerprint.differences(state.get(TRAINING_SET) or {}, data.get(TRAINING_SET) or {})
    if parts:
        differing.append(
            f"--train {now['train']} is not the set that --train {saved['train']} was: {', '.join(parts)}"
        )
    differing += [f"other weights for --{name}" for name in ORIGINS if state.get(name) != data.get(name)]
    if differing:
        raise UsageError(
            f"{path}: is another run's ({', '.join(differing)}); give its values, another --out, or --resume never"
        )


def _warn_of_another_length(now: config.Optim, before: config.Optim, data: dict[str, Any], step: int) -> None:
    """A run may be made longer or shorter, but a schedule that is spread over it is another one then."""
    lengths = [schedules.length(optim, data["num_samples"])[1] for optim in (before, now)]
    if lengths[0] != lengths[1] and catalogue.schedule(now).name not in catalogue.EPOCH_SCHEDULES:
        logger.warning(
            "--schedule %s is spread over the run, which has become %d steps instead of %d: from step %d on "
            "the rate is the longer or shorter run's; those that count epochs (%s) would go on as they were",
            *(now.schedule, lengths[1], lengths[0], step, ", ".join(catalogue.EPOCH_SCHEDULES)),
        )


def _warn_of_data_unknown(found: Checkpoint, data: dict[str, Any]) -> None:
    if data.get(TRAINING_SET) and not found[1].get(TRAINING_SET):
        logger.warning(
            "%s: is from before checkpoints knew their training set; besides the number of samples and the class "
            "names nothing tells whether --train is still the same one",
            found[0],
        )


def _is_scored_by_another(
    now: config.Data, before: config.Data, data: dict[str, Any], state: dict[str, Any]
) -> bool:
    """Whether scores are compared that are of two sets; without fingerprints the paths have to tell."""
    if not (before.val and now.val):
        return False
    if before.val_resize != now.val_resize:
        return True
    scored_before, scored_now = state.get(VALIDATION_SET), data.get(VALIDATION_SET)
    if scored_before and scored_now:
        return bool(fingerprint.differences(scored_before, scored_now))
    return locations.listed(before.val) != locations.listed(now.val)


def _warn_of_other_scores(now: config.Data, before: config.Data, step: int) -> None:
    logger.warning(
        "scores up to step %d are of --val %s at --val-resize %d, from there on of %s at %d; the best checkpoint "
        "and --early-stop compare the one with the other",
        *(step, before.val, before.val_resize, now.val, now.val_resize),
    )
