"""Refusals of a run that cannot work, before mxnet loads; each names the flag and the way out.

Owns checks of a `Run` by itself and against this machine. Problems that only the data or the built net can show are
refused where they are found.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

from mxtrain.config import Data, Output, Run, batch_plan, program_objects, schema
from mxtrain.config.checks import (
    bounds,
    data_checks,
    head_checks,
    hold_checks,
    loss_checks,
    shrink_checks,
    stage_checks,
    store_checks,
)
from mxtrain.config.components import (
    augmentations,
    choices,
    import_path,
    initializers,
    metrics,
    nets,
    optimizers,
    schedules,
    sinks,
    tasks,
)
from mxtrain.config.flags import arguments
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.config.values import addresses, mean_deviation, rate_scales, sizes, step_range
from mxtrain.core import command_name
from mxtrain.core.errors import UsageError, nearest
from mxtrain.core.system import gpus, kernels

SMALLEST_ALPHA = 0.001  # below it shares are 0 or 1 anyway, and older NumPy takes very long to draw them


def check(run: Run, begins: bool = True, objects: ProgramObjects = NO_OBJECTS) -> None:
    """Raise UsageError for the first thing in `run` that cannot work here; `begins` is False after a restart."""
    check_description(run, objects)
    store_checks.check_store(run)
    _check_devices(run)
    _check_batch(run)
    for sink in run.output.log.split(","):
        sinks.check_package(sink)
    if begins:  # a restarted job may have pruned the checkpoint it began with
        _check_resume(run.output.resume)
        _check_initial_weights(run)
    if not run.output.dry_run:
        _check_out(Path(run.output.out))


def check_description(run: Run, objects: ProgramObjects = NO_OBJECTS) -> None:
    """Do the part of `check` that does not depend on this machine, but for the files and modules that flags name.

    Each number has been checked by `bounds` before.
    """
    _check_purpose(run)
    _check_objects(run, objects)
    _check_numbers(run)
    _check_channels(run.data, tasks.defaults_of(run.model.task))
    _check_step(run)
    _check_model(run)
    loss_checks.check(run)
    head_checks.check(run)
    shrink_checks.check(run)
    hold_checks.check(run)
    stage_checks.check(run)
    _check_names(run)
    data_checks.check(run.data)
    if run.output.profile:
        step_range.parse(run.output.profile)


def _check_purpose(run: Run) -> None:
    """Refuse a run without input or output, and two commands in one."""
    output = run.output
    if output.plot_schedule and output.dry_run:
        raise UsageError("--plot-schedule and --dry-run each print something and stop; give one")
    if output.plot_schedule:
        _check_picture(output.plot_schedule)
    if not run.data.train and not (output.plot_schedule and run.optim.max_steps):
        raise UsageError(
            f"--train is missing: give a .rec file; {command_name.packer()} pack makes one from a folder"
        )
    if output.mirror:
        if not addresses.is_address(output.mirror):
            raise UsageError(f"--mirror {output.mirror}: give an address, as s3://bucket/runs/photos")
        addresses.parse("--mirror", output.mirror)
    if not output.out:
        raise UsageError("--out is empty; give a folder, or . for this one")


def _check_picture(name: str) -> None:
    try:
        arguments.png_path(name)
    except argparse.ArgumentTypeError as wrong:
        raise UsageError(f"--plot-schedule {wrong}") from None


def _check_objects(run: Run, objects: ProgramObjects) -> None:
    """Refuse a text that stands for an object of a Python program which is not at hand."""
    for name, value in schema.to_flat(run).items():
        for part, text in enumerate(program_objects.split_names(value) if isinstance(value, str) else ()):
            if program_objects.is_object(text):
                objects.require(schema.flag_of(name), text, part)


def _check_numbers(run: Run) -> None:
    data, optim = run.data, run.optim
    for name, alpha in (("--mixup", data.mixup), ("--cutmix", data.cutmix)):
        if 0 < alpha < SMALLEST_ALPHA:
            raise UsageError(f"{name} {alpha:g}: give 0 for none, or {SMALLEST_ALPHA} or more")
    if optim.momentum >= 1:
        raise UsageError(f"--momentum {optim.momentum}: give a number from 0 to below 1")
    if optim.warmup_epochs >= optim.epochs:
        raise UsageError(
            f"--warmup-epochs {optim.warmup_epochs:g} leaves nothing of --epochs {optim.epochs}; give less"
        )
    least = min(sizes.height_and_width(data.image_size))
    if 0 < data.val_resize < least:
        raise UsageError(
            f"--val-resize {data.val_resize} is below --image-size {data.image_size}; give {least} or more"
        )


def _check_channels(data: Data, task: tasks.TaskDefaults) -> None:
    """Refuse what changes colours where there are none, and numbers that are not as many as there are channels."""
    if data.channels == 2:
        raise UsageError("--channels 2: give 3 (colours) or 1 (grey)")
    mean_deviation.check(data)
    if data.channels == 3:
        return
    if data.augment == augmentations.AUTO:  # which changes none
        return
    if task.has_boxes or task.has_masks or task.has_texts:  # which take no --channels, as they say themselves
        return
    for name, hyperparameters in augmentations.parse(data.augment):
        colours = [key for key in ("saturation", "hue") if hyperparameters.get(key)]
        if name in augmentations.AUGMENTATIONS and augmentations.AUGMENTATIONS[name].needs_colours:
            raise UsageError(f"--augment {name} changes colours, and --channels 1 has none; leave it out")
        if colours:
            raise UsageError(
                f"--augment {name}: {' and '.join(colours)} change colours, and --channels 1 has none; give "
                f"{name}:{','.join(f'{key}=0' for key in colours)}"
            )


def _check_step(run: Run) -> None:
    optim, wanted, (least, most) = run.optim, run.model.loss_scale, bounds.LOSS_SCALE
    rate_scales.parse(optim.lr_scale)
    if optim.clip_norm and optim.clip_value:
        raise UsageError("--clip-norm and --clip-value are two ways to the same end; give one")
    if optim.ema >= 1:
        raise UsageError(f"--ema {optim.ema:g}: give a number below 1, such as 0.9999")
    try:
        is_scale = wanted in choices.LOSS_SCALES or least <= float(wanted) <= most
    except ValueError:
        is_scale = False
    if not is_scale:
        raise UsageError(
            f"--loss-scale {wanted}: give a number from {least:g} to {most:g}, or one of "
            f"{', '.join(choices.LOSS_SCALES)}"
        )


def _check_model(run: Run) -> None:
    initializers.parse(run.model.init)
    if run.optim.label_smoothing >= 1:
        raise UsageError(
            f"--label-smoothing {run.optim.label_smoothing:g}: give a number below 1, such as 0.1"
        )
    if run.optim.early_stop and not (run.data.val or run.optim.overfit):
        raise UsageError(f"--early-stop {run.optim.early_stop} needs --val: without it there is no score")
    evaluation = {"--score": run.output.score, "--evaluate-steps": run.output.evaluate_steps or ""}
    for flag, setting in evaluation.items():
        if setting and not (run.data.val or run.optim.overfit):
            raise UsageError(f"{flag} {setting} needs --val: without it nothing is evaluated")
    if run.output.keep_best > Output.keep_best and not (run.data.val or run.optim.overfit):
        raise UsageError(
            f"--keep-best {run.output.keep_best} needs --val: without it no checkpoint has a score; give it, or leave "
            "--keep-best out"
        )
    if run.optim.overfit and (run.data.mixup or run.data.cutmix):
        raise UsageError(
            f"--overfit {run.optim.overfit}: leave --mixup and --cutmix out, they hide what is learnt"
        )
    for name in ("distill_weight", "distill_temperature"):
        if name in schema.changed(run) and not run.model.teacher:
            flag, value = schema.flag_of(name), getattr(run.optim, name)
            raise UsageError(
                f"{flag} {value:g}: there is no --teacher to learn from; give one, or leave it out"
            )


def _check_batch(run: Run) -> None:
    micro_batch = batch_plan.of_run(run).micro_batch
    if micro_batch == 1 and (run.data.mixup or run.data.cutmix):
        flag = "--mixup" if run.data.mixup else "--cutmix"
        raise UsageError(
            f"{flag} mixes the samples of a micro-batch, and it has one; give --micro-batch 2 or more"
        )
    num_pixels = math.prod(sizes.height_and_width(run.data.image_size))
    if (
        tasks.defaults_of(run.model.task).samples == tasks.PICTURES
        and not import_path.is_import_path(str(run.data.train))
        and micro_batch * run.data.channels * num_pixels > bounds.LARGEST_ARRAY
    ):
        raise UsageError(
            f"--micro-batch {micro_batch}: so many pictures of --image-size {run.data.image_size} are more than MXNet "
            f"takes in one array; give {bounds.LARGEST_ARRAY // (run.data.channels * num_pixels)} or less"
        )


def _check_names(run: Run) -> None:
    nets.parse(run.model.model)
    import_path.check_name("--task", run.model.task, tasks.TASKS)
    optimizers.parse(run.optim, "momentum" in run.explicit)
    schedules.parse(run.optim)
    for flag, value, known in (
        ("--amp", run.model.amp, choices.AMP),
        ("--sums", run.optim.sums, choices.SUMS),
        ("--update", run.layout.update, choices.UPDATES),
        ("--loader", run.data.loader, choices.LOADERS),
        ("--sampling", run.data.sampling, choices.SAMPLINGS),
        ("--verify", run.data.verify, choices.VERIFY),
        ("--normalize", run.data.normalize, choices.NORMALIZE),
        ("--cache", run.data.cache, choices.CACHES),
        ("--log-level", run.output.log_level, choices.LOG_LEVELS),
    ):
        if value not in known:
            raise UsageError(f"{flag} {value}: unknown{nearest(value, known)} ({', '.join(known)})")
    for sink in run.output.log.split(","):
        sinks.check_name(sink, run.output.out)
    _check_augment(run.data.augment, tasks.defaults_of(run.model.task))
    metrics.parse(run.output.metric)


def _check_augment(augment: str, task: tasks.TaskDefaults) -> None:
    if task.has_texts:
        augmentations.parse_of_text(augment)
    elif task.has_masks:
        augmentations.parse_of_masks(augment)
    elif augment == augmentations.AUTO:
        pass  # what suits the training set is known by name
    elif task.has_boxes:
        augmentations.parse_of_boxes(augment)
    else:
        augmentations.parse(augment)


def _check_devices(run: Run) -> None:
    amp, device_type = run.model.amp, batch_plan.parse_devices(run.layout.devices)[0][0]
    if choices.AMP_DEVICES.get(amp, device_type) != device_type:
        other = {"bf16": "fp16", "fp16": "bf16"}[amp]
        raise UsageError(
            f"--amp {amp}: MXNet has no {amp} kernels for a {device_type.upper()}; use --amp {other}"
        )
    problem = kernels.bf16_problem() if amp == "bf16" else None
    if problem:
        raise UsageError(f"--amp bf16 {problem}")
    if run.model.amp_table and amp not in ("auto", "bf16"):
        raise UsageError(f"--amp-table {run.model.amp_table}: --amp is {amp}; give auto or bf16, or no table")
    check_present(run.layout.devices)


def check_present(devices: str) -> None:
    """Refuse a GPU that this machine does not have or this MXNet cannot use."""
    for device_type, index in batch_plan.parse_devices(devices):
        problem = gpus.problem(index) if device_type == "gpu" else None
        if problem:
            raise UsageError(f"--devices {devices}: {problem}")


def _check_resume(resume: str) -> None:
    if resume not in ("auto", "never") and not (Path(resume) / "manifest.json").is_file():
        raise UsageError(
            f"--resume {resume}: no checkpoint there; give auto, never or a folder in RUN/checkpoints"
        )


def _check_initial_weights(run: Run) -> None:
    """Refuse initial weights from the run folder itself: --resume never sets its checkpoints aside first."""
    checkpoints = Path(run.output.out).resolve() / "checkpoints"
    if run.output.resume != "never" or not checkpoints.exists():
        return
    for flag, origin in (("--pretrained", run.model.pretrained), ("--teacher", run.model.teacher)):
        if addresses.is_address(origin):
            continue
        path = Path(origin or "/").resolve()
        if path == checkpoints.parent or checkpoints in (path, *path.parents):
            raise UsageError(f"{flag} {origin}: --resume never would set it aside; give another --out")


def _check_out(out: Path) -> None:
    """Create the run folder and write to it: permission bits are not enough (root, read-only mounts)."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=str(out)):
            pass
    except OSError as error:
        raise UsageError(
            f"--out {out}: cannot be written ({error.strerror}); give a folder that can"
        ) from None
