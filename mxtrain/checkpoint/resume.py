"""The checkpoint that a run resumes from, and whether it may.

Needs no mxnet, so that a run that cannot resume is refused before anything is loaded or overwritten.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import NamedTuple

from mxtrain import config
from mxtrain.checkpoint import directory, locations, numeric_environment, run_mirror
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.config import batch_plan, exact_sums
from mxtrain.config.checks import store_checks
from mxtrain.config.components import augmentations, choices
from mxtrain.config.components import schedules as schedule_names
from mxtrain.config.components.stores import is_async
from mxtrain.core.errors import UsageError
from mxtrain.data import fingerprint
from mxtrain.data.loading import run_plan
from mxtrain.optim import early_stop
from mxtrain.optim.early_stop import Best

logger = logging.getLogger(__name__)

# What may differ between a run and the checkpoint it goes on from: how long, where, how fast and how loud.
FREE = {
    *(field.name for section in (config.Layout, config.Output) for field in dataclasses.fields(section)),
    *("train", "val", "val_resize", "loader", "loader_workers", "prefetch_mb", "verify", "skip_bad"),
    *("storage_cache", "storage_cache_mb", "storage_patience"),
    *("cache_dir", "normalize", "epochs", "max_steps", "max_bad_steps", "early_stop"),
    *(
        "micro_batch",
        "accumulate",
        "pretrained",
        "teacher",
        "amp_table",
        "class_weights",
    ),  # compared by what they come to
}


class ResumePoint(NamedTuple):
    """The checkpoint that a run resumes from, and whether the run has no step left to do from there."""

    checkpoint: Checkpoint
    has_ended: bool  # an evaluation may still be left


def find(run: config.Run, identity: InputIdentity, local_workers: int = 1) -> ResumePoint | None:
    """Return where `--resume` lets a run on these inputs begin, in one of `local_workers`; None for a fresh start.

    UsageError where the checkpoint is of another run. What differs and may differ, but is easily overlooked, is
    logged as a warning.
    """
    folder = Path(run.output.out) / "checkpoints"
    mirror = run_mirror.of_run(run.output.out, run.output.mirror)
    if mirror is not None and run.output.resume == "auto":
        mirror.pull(run.data.storage_patience)
    if run.output.resume == "never":
        return None
    if run.output.resume == "auto":
        checkpoint = directory.newest(folder)
    else:
        path = Path(run.output.resume)
        checkpoint = Checkpoint(path, directory.read_state(path))
        _refuse_converted(checkpoint)
        _refuse_another_runs_folder(with_saved_sums(run, checkpoint), identity, folder, checkpoint)
    if checkpoint is None:
        return None
    _refuse_converted(checkpoint)
    requested_run, run = run, with_saved_sums(run, checkpoint)
    if is_async(run.layout.kvstore):
        store_checks.check_async(run)  # its batch may be cut into fewer parts than a new run's
    _refuse_another_curve(run, identity, checkpoint)
    before, saved = (
        config.from_flat(checkpoint.state["config"]),
        InputIdentity.of_checkpoint(checkpoint.state),
    )
    _warn_of_unknown_training_set(checkpoint, saved, identity)
    for difference in numeric_environment.differences(checkpoint.state, run, local_workers):
        logger.warning("%s: %s", checkpoint.path, difference)
    _warn_of_another_table(run.model.amp, checkpoint, saved, identity)
    point = ResumePoint(checkpoint, _has_ended(run, identity, checkpoint))
    if not point.has_ended:
        step = checkpoint.state["step"]
        _warn_of_its_sums(requested_run, run, checkpoint)
        _warn_of_another_length(run.optim, before.optim, identity.num_samples, step)
        if _is_scored_by_another(run.data, before.data, identity, saved):
            _warn_of_other_scores(run.data, before.data, step)
    return point


def _refuse_converted(checkpoint: Checkpoint) -> None:
    if directory.CONVERTED in checkpoint.state:
        raise UsageError(
            f"{checkpoint.path}: holds weights that were converted, and no run to resume; give --pretrained "
            f"{checkpoint.path.parent.parent} and another --out"
        )


def with_saved_sums(run: config.Run, checkpoint: Checkpoint | None) -> config.Run:
    """Return `run` as it goes on from this checkpoint, to the same bits: with its micro-batch where flags name none.

    And with `--sums fast` where it was begun so. The other way round, `--sums fast` where sums were exact, is refused
    as any other flag. `--augment auto` is what it came to when the run began.
    """
    if checkpoint is None:
        return run
    optim = run.optim
    if _sums_of(checkpoint) == "fast":
        optim = dataclasses.replace(optim, sums="fast")
    if optim.batch_size == checkpoint.state["config"]["batch_size"]:
        optim = with_micro_batch(optim, checkpoint)
    data = run.data
    if data.augment == augmentations.AUTO:
        data = dataclasses.replace(data, augment=_augment_of(checkpoint))
    return dataclasses.replace(run, data=data, optim=optim)


def with_micro_batch(optim: config.Optim, checkpoint: Checkpoint) -> config.Optim:
    """Return flags of a batch that is cut as the checkpoint's was, where they leave that to the default."""
    default, before = batch_plan.default_micro_batch(optim.batch_size), _micro_batch_of(checkpoint)
    if optim.micro_batch or optim.accumulate or before == default:
        return optim
    return dataclasses.replace(optim, micro_batch=before)


def _micro_batch_of(checkpoint: Checkpoint) -> int:
    """Return the size of a checkpoint's micro-batches; those that do not tell it had another default."""
    if "micro_batch" in checkpoint.state:
        return int(checkpoint.state["micro_batch"])
    run = config.from_flat(checkpoint.state["config"])
    if run.optim.micro_batch or run.optim.accumulate:
        return batch_plan.of_run(run).micro_batch
    return batch_plan.first_default_micro_batch(run.optim.batch_size)


def _augment_of(checkpoint: Checkpoint) -> str:
    """Return the --augment of a checkpoint's run; when there was no such flag, it was ImageNet's."""
    augment: str = checkpoint.state["config"].get("augment", augmentations.IMAGENET)
    return augment


def _sums_of(checkpoint: Checkpoint) -> str:
    """Return the --sums of a checkpoint's run; those without it are of versions that knew no others than fast."""
    sums: str = checkpoint.state["config"].get("sums", "fast")
    return sums


def _has_ended(run: config.Run, identity: InputIdentity, checkpoint: Checkpoint) -> bool:
    best, step = checkpoint.state.get("best"), checkpoint.state["step"]
    is_over = early_stop.is_over(best and Best(*best), run.optim.early_stop)
    return is_over or step >= run_plan.run_length(run.optim, identity.num_samples).num_steps


def _refuse_another_runs_folder(
    run: config.Run, identity: InputIdentity, folder: Path, checkpoint: Checkpoint
) -> None:
    """Refuse to resume from elsewhere into a folder that holds another run: the two would become one."""
    if checkpoint.path.resolve().parent != folder.resolve():
        here = directory.newest(folder)
        if here is not None:
            _refuse_another_curve(run, identity, here)


def _refuse_another_curve(run: config.Run, identity: InputIdentity, checkpoint: Checkpoint) -> None:
    """Refuse other hyper-parameters or other data than the checkpoint's: what came of it would be neither run."""
    path, state = checkpoint[:2]
    before_inputs = InputIdentity.of_checkpoint(state)
    # A flag that is younger than the checkpoint had its default, but for two; one that is gone had a meaning.
    by_now = {"sums": _sums_of(checkpoint), "augment": _augment_of(checkpoint)}
    saved = {**config.to_flat(config.Run()), **state["config"], **by_now}
    now = config.to_flat(run)
    for flags in (saved, now):  # a net that is held in layers is computed as --remat does it
        flags["remat"] = flags["remat"] or flags["hold"] == choices.HOLD_LAYERS
    free = FREE
    if identity.is_another_stream(
        before_inputs
    ):  # its description, with the weights of classes, is not made anew
        free, identity = FREE - {"class_weights"}, identity.going_on_from(before_inputs)
    before = _micro_batch_of(checkpoint)
    differing = [
        f"--{name.replace('_', '-')} {saved[name]} -> {now.get(name, 'unknown here')}"
        for name in saved
        if name not in free and (name not in now or saved[name] != now[name])
    ]
    micro_batch = batch_plan.of_run(run).micro_batch
    if before != micro_batch:
        differing.append(f"micro-batches of {before} -> {micro_batch}")
    if is_async(saved["kvstore"]) != is_async(now["kvstore"]):
        differing.append(f"--kvstore {saved['kvstore']} -> {now['kvstore']}")
    differing += _differences_of_inputs(before_inputs, identity, saved["train"], now["train"])
    if differing:
        raise UsageError(
            f"{path}: is another run's ({', '.join(differing)}); give its values, another --out, or --resume never"
        )


def _differences_of_inputs(
    before: InputIdentity, now: InputIdentity, train_before: str, train_now: str
) -> list[str]:
    """Return in words how the training set and the initial weights differ, as far as both are known."""
    differences = []
    if before.num_samples != now.num_samples:
        differences.append(f"a training set of {before.num_samples} -> {now.num_samples} samples")
    for key in sorted({*before.description, *now.description}):
        if before.description.get(key) != now.description.get(key):
            differences.append(f"other {key.replace('_', ' ')}, or in another order")
    parts = fingerprint.differences(before.training_set or {}, now.training_set or {})
    if parts:
        differences.append(
            f"--train {train_now} is not the set that --train {train_before} was: {', '.join(parts)}"
        )
    if before.pretrained != now.pretrained:
        differences.append("other weights for --pretrained")
    if before.scored_by and now.scored_by and before.scored_by != now.scored_by:
        differences.append(f"--score {before.scored_by} -> {now.scored_by}")
    if before.teacher != now.teacher:
        differences.append("other weights for --teacher")
    return differences


def _warn_of_another_length(now: config.Optim, before: config.Optim, num_samples: int, step: int) -> None:
    """Warn where a run is made longer or shorter whose schedule is spread over its length."""
    lengths = [run_plan.run_length(optim, num_samples).num_steps for optim in (before, now)]
    if lengths[0] != lengths[1] and schedule_names.parse(now).name not in schedule_names.EPOCH_SCHEDULES:
        logger.warning(
            "--schedule %s is spread over the run, which has become %d steps instead of %d: from step %d on "
            "the rate is the longer or shorter run's; those that count epochs (%s) would go on as they were",
            *(now.schedule, lengths[1], lengths[0], step, ", ".join(schedule_names.EPOCH_SCHEDULES)),
        )


def _warn_of_its_sums(requested_run: config.Run, run: config.Run, checkpoint: Checkpoint) -> None:
    """Warn where a run goes on without the exact sums that it would have if it began now."""
    would_be_exact = exact_sums.has_sums(requested_run) and exact_sums.reason_against(requested_run) is None
    if would_be_exact and run.optim.sums == "fast":
        logger.warning(
            "%s: was begun with --sums fast, or before there were others, and goes on so, to the same bits; exact sums "
            "need a run from the start, with another --out",
            checkpoint.path,
        )


def _warn_of_unknown_training_set(
    checkpoint: Checkpoint, saved: InputIdentity, identity: InputIdentity
) -> None:
    if identity.training_set and not saved.training_set:
        logger.warning(
            "%s: is from before checkpoints knew their training set; besides the number of samples and the class "
            "names nothing tells whether --train is still the same one",
            checkpoint.path,
        )


def _warn_of_another_table(
    amp: str, checkpoint: Checkpoint, saved: InputIdentity, identity: InputIdentity
) -> None:
    """Warn where other operators may run in bfloat16; checkpoints without the key chose by MXNet's lists."""
    if saved.amp_table != identity.amp_table:
        is_old = "amp_table" not in checkpoint.state
        logger.warning(
            "%s: chose what runs in bfloat16 by %s, here --amp %s does by %s: the curve goes on, rounded anew",
            *(checkpoint.path, "MXNet's lists" if is_old else _table(saved), amp, _table(identity)),
        )


def _table(identity: InputIdentity) -> str:
    return f"table {identity.amp_table}" if identity.amp_table else "no table, so nothing"


def _is_scored_by_another(
    now: config.Data, before: config.Data, identity: InputIdentity, saved: InputIdentity
) -> bool:
    """Return whether scores of two validation sets would be compared; without fingerprints the paths decide."""
    if not (before.val and now.val):
        return False
    if before.val_resize != now.val_resize:
        return True
    if saved.validation_set and identity.validation_set:
        return bool(fingerprint.differences(saved.validation_set, identity.validation_set))
    return locations.absolute_sources(before.val) != locations.absolute_sources(now.val)


def _warn_of_other_scores(now: config.Data, before: config.Data, step: int) -> None:
    logger.warning(
        "scores up to step %d are of --val %s at --val-resize %d, from there on of %s at %d; the best checkpoint "
        "and --early-stop compare the one with the other",
        *(step, before.val, before.val_resize, now.val, now.val_resize),
    )
