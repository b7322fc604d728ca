"""What a run is made of, how far it has come, and how both survive a stop.

`Parts` are built anew by every process and changed in place by a step; `Progress` is a small value that travels
with them. Owns what goes into a checkpoint. How it gets to disk safely is `checkpoint/directory.py`'s, which one
a run goes on from `checkpoint/resume.py`'s.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import zlib
from typing import Any, Sequence

import mxtrain
from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.checkpoint.directory import AVERAGES, OPTIMIZER, WEIGHTS, Checkpoint, Snapshot
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, gather, step_group
from mxtrain.config import Run, batch_plan, catalogue, names, store_checks
from mxtrain.core.errors import Diverged, RestartMe
from mxtrain.data import mix
from mxtrain.kvstore.trainer import StepTrainer, open_trainer
from mxtrain.models import losses, running_statistics, sparse_rows, weights
from mxtrain.optim import early_stop, optimizers, precision
from mxtrain.optim.early_stop import Best
from mxtrain.optim.ema import Ema
from mxtrain.optim.optimizer_state import ExtraOptimizerState
from mxtrain.optim.precision import LossScale
from mxtrain.optim.weight_decay import exempt_from_decay
from mxtrain.runtime import mx
from mxtrain.train import build_net, distillation
from mxtrain.train.distillation import Teacher

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a step works with and changes in place."""

    net: Any
    loss: Any
    plain_loss: Any  # without smoothing, as an evaluation tells it
    trainer: StepTrainer
    optimizer: Any
    extra_optimizer_state: ExtraOptimizerState
    contexts: Sequence[Any]
    seed: int
    num_micro_batches: int
    mix: Any  # (data, label, step, position) -> what was mixed in, or None
    clip_norm: float
    clip_value: float
    ema: Ema | None
    teacher: Teacher | None
    needs_input_grad: (
        bool  # gradients go back to the pictures, for the statistics of norms that train nothing
    )
    sample_counter: running_statistics.SampleCounter
    group: WorkerGroup  # all workers
    step_group: (
        WorkerGroup  # the workers that make each step together: all, or under dist_async this one alone
    )
    is_async: bool  # whether workers update the weights without waiting for each other


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far the run has come: `step` updates are done. Checkpoints hold every field."""

    step: int
    scale: LossScale
    score: float | None = None
    skipped_steps: int = 0  # whose gradients were not finite
    bad_steps_in_a_row: int = 0  # the last ones, skipped though no smaller loss scale could have saved them
    best: Best | None = None
    bad_records: tuple[int, ...] = ()  # positions of those that were replaced

    def after(self, outcome: Any, bad_records: tuple[int, ...] = ()) -> Progress:
        skipped = self.skipped_steps + (not outcome.applied)
        bad = 0 if outcome.applied else self.bad_steps_in_a_row + (not self.scale.can_decrease())
        return Progress(self.step + 1, outcome.scale, None, skipped, bad, self.best, bad_records)

    def scored(self, score: float) -> Progress:
        return dataclasses.replace(self, score=score, best=early_stop.updated(self.best, score, self.step))


def build(
    run: Run,
    num_classes: int,
    group: WorkerGroup = SINGLE_WORKER,
    is_fresh: bool = True,
    is_trial: bool = False,
) -> Parts:
    """Everything a first step needs; if not fresh, `restore` is still to bring what a checkpoint holds.

    A trial takes no step, and so no store of a cluster, which would wait for the others.
    """
    optim, places = run.optim, build_net.contexts(run.layout.devices)
    net = build_net.to_train(run, num_classes, places, is_fresh)
    trained = list(weights.named_parameters(net).values())
    if not optim.decay_all:
        exempt_from_decay(trained)
    tables = [parameter for parameter in trained if sparse_rows.is_table(parameter)]
    if tables:
        store_checks.check_tables(run, [table.name for table in tables if not hasattr(table, "pull_rows")])
    optimizer = optimizers.build(optim)
    extra_optimizer_state = ExtraOptimizerState(optimizer)
    loss = losses.build(run.model.loss, optim.label_smoothing, num_classes)
    trainer = open_trainer(
        trained,
        optimizer,
        "device" if is_trial else run.layout.kvstore,
        running_statistics.parameters(net),
        catalogue.compression_threshold(optim.compress),
        group,
    )
    return Parts(
        net=net,
        loss=loss,
        plain_loss=losses.build(run.model.loss, 0.0, num_classes) if optim.label_smoothing else loss,
        trainer=trainer,
        optimizer=optimizer,
        extra_optimizer_state=extra_optimizer_state,
        contexts=places,
        seed=optim.seed,
        num_micro_batches=batch_plan.of_run(run).num_micro_batches,
        mix=functools.partial(mix.mix, seed=optim.seed, mixup=run.data.mixup, cutmix=run.data.cutmix),
        clip_norm=optim.clip_norm,
        clip_value=optim.clip_value,
        ema=Ema(net, optim.ema) if optim.ema else None,
        teacher=distillation.build(run, places),
        needs_input_grad=running_statistics.need_input_grad(net),
        sample_counter=running_statistics.SampleCounter(),
        group=group,
        step_group=step_group(group, run.layout.kvstore),
        is_async=names.is_async(run.layout.kvstore),
    )


def meet(parts: Parts, step: int) -> None:
    """All workers come to one state, the one that a checkpoint holds.

    In dist_sync they are there already: where their weights differ, the network or somebody's memory is at fault.
    """
    group = parts.group
    parts.trainer.synchronize()
    parts.trainer.drop_residuals()
    if group.world_size == 1:
        return
    if parts.is_async:
        running_statistics.average(parts.net, parts.sample_counter, group)
    checksum = 0
    for array in weights.copy_of(parts.net).values():
        checksum = zlib.crc32(array, checksum)
    if group.sum([checksum])[0] != checksum * group.world_size:
        raise RestartMe(
            f"step {step}: worker {group.rank}'s weights are not those of the others; going on from the newest "
            "checkpoint, before they parted"
        )


def snapshot(run: Run, parts: Parts, progress: Progress, identity: InputIdentity) -> Snapshot:
    """Copy all that the next step depends on into host memory: arrays file by file, and values.

    `identity` is that of the run's inputs, by which a resume recognises them.
    """
    if not precision.all_finite([parameter.list_data()[0] for parameter in parts.trainer.parameters]):
        raise Diverged(f"step {progress.step}: weights are not finite; lower --lr, and give another --out")
    of_optimizer, update_counts = parts.trainer.optimizer_state()
    files = {
        WEIGHTS: weights.copy_of(parts.net),
        OPTIMIZER: of_optimizer,
    }
    if parts.ema is not None:
        files[AVERAGES] = {name: average.asnumpy() for name, average in parts.ema.averages.items()}
    values = {
        **dataclasses.asdict(progress),
        "update_counts": update_counts,
        "optimizer_numbers": parts.extra_optimizer_state.changed(),
        "config": config.to_flat(locations.absolute(run)),
        "modules": locations.modules(run),
        "versions": {"mxtrain": mxtrain.__version__, "mxnet": mx.__version__},
        "job": parts.group.job,
        **identity.to_dict(),
    }
    return Snapshot(progress.step, files, values)


def restore(run: Run, parts: Parts, found: Checkpoint | None) -> Progress:
    """Put a checkpoint's arrays into `parts`; the beginning where there is none."""
    if found is None:
        return Progress(step=0, scale=precision.initial_loss_scale(run.model.amp, run.model.loss_scale))
    path, state = found
    weights.load(parts.net, str(path / WEIGHTS))
    parts.trainer.load_optimizer_state(str(path / OPTIMIZER), state["update_counts"])
    parts.extra_optimizer_state.restore(state.get("optimizer_numbers", {}))  # checkpoints of old have none
    if parts.ema is not None:
        parts.ema.restore(str(path / AVERAGES), num_updates=state["step"] - state["skipped_steps"])
    logger.info("going on from %s", path)
    return _scored_alike(_progress(state), parts.group)


def _progress(state: dict[str, Any]) -> Progress:
    known = {"bad_records": (), **state}  # checkpoints of old have none
    saved = {field.name: known[field.name] for field in dataclasses.fields(Progress)}
    scale, best = LossScale(**saved["scale"]), saved["best"] and Best(*saved["best"])
    return Progress(**{**saved, "scale": scale, "best": best, "bad_records": tuple(saved["bad_records"])})


def _scored_alike(progress: Progress, group: WorkerGroup) -> Progress:
    """A step is saved again once it has a score; a death may leave that on some disks and not on others."""
    known = gather(group, [] if progress.score is None else [progress.score])
    if progress.score is None and len(known):
        return progress.scored(float(known[0]))
    return progress
