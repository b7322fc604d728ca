"""The state of a run: how far it has come, how workers come to the same one, and how it survives a stop.

`TrainState` is a small value; the arrays that belong to it live in `TrainContext`. Owns what goes into a checkpoint.
How that gets to disk safely is `checkpoint/directory.py`'s, which one a run resumes from `checkpoint/resume.py`'s.
"""

from __future__ import annotations

import dataclasses
import logging
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from mxtrain import config
from mxtrain.checkpoint import directory, locations, numeric_environment
from mxtrain.checkpoint.directory import (
    AVERAGE,
    AVERAGES,
    GRID,
    MASKS,
    OPTIMIZER,
    WEIGHTS,
    Checkpoint,
    FilesAside,
    Snapshot,
)
from mxtrain.cluster.worker_group import WorkerGroup, gather
from mxtrain.config import Run
from mxtrain.core.errors import Diverged, RestartMe, UsageError
from mxtrain.core.params_file import NamedArrays
from mxtrain.data.fields import Array
from mxtrain.kvstore.tables.owner import TableOwners
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.optim import early_stop, precision
from mxtrain.optim.early_stop import Best
from mxtrain.optim.precision import LossScale
from mxtrain.optim.sums import grid_units
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.held import stored
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.tables import first_rows

if TYPE_CHECKING:
    from mxtrain.runtime.types import Parameter
    from mxtrain.train.step_end import StepResult

logger = logging.getLogger(__name__)

COMPANIONS = (AVERAGES, AVERAGE, MASKS)  # in the order of a checkpoint's files


@dataclasses.dataclass(frozen=True)
class TrainState:
    """The progress of a run: `step` updates are done. Every field is a key of a checkpoint's state.json."""

    step: int
    scale: LossScale
    score: float | None = None  # of the evaluation at this step
    skipped_steps: int = 0  # whose gradients were not finite
    bad_steps_in_a_row: int = 0  # the last ones, skipped though no smaller loss scale could have saved them
    best: Best | None = None
    is_lower_better: bool = False  # of scores
    bad_records: tuple[int, ...] = ()  # positions of the records that were replaced by others

    def after_step(self, result: StepResult) -> TrainState:
        """Return the state after one more step, which has no score yet."""
        is_bad = not result.applied and result.weight != 0  # without weight there was nothing that could be
        bad_steps = self.bad_steps_in_a_row + (not self.scale.can_decrease()) if is_bad else 0
        return dataclasses.replace(
            self,
            step=self.step + 1,
            scale=result.scale,
            score=None,
            skipped_steps=self.skipped_steps + (not result.applied),
            bad_steps_in_a_row=bad_steps,
        )

    def with_score(self, score: float, is_lower_better: bool = False) -> TrainState:
        """Return the state with the score of an evaluation at this step."""
        best = early_stop.updated(self.best, score, self.step, is_lower_better)
        return dataclasses.replace(self, score=score, best=best, is_lower_better=is_lower_better)


def synchronize(context: TrainContext, step: int) -> None:
    """Bring all workers to the same weights, running statistics and optimizer state, and verify the weights.

    A collective: every worker calls it at the same `step`. In dist_sync they are the same already, and nothing moves.
    """
    context.trainer.synchronize()
    if context.group.world_size == 1:
        return
    if context.is_async:
        running_statistics.average(context.net, context.sample_counter, context.group)
    _verify_equal_weights(context, step)


def _verify_equal_weights(context: TrainContext, step: int) -> None:
    """Raise RestartMe where the workers' weights differ: the network or a worker's memory is at fault."""
    group, checksum = context.group, 0
    for array in _own_arrays(context):
        checksum = zlib.crc32(array, checksum)  # type: ignore[arg-type]  # numpy 1.26 has no Buffer type
    if group.sum([checksum])[0] != checksum * group.world_size:
        raise RestartMe(
            f"step {step}: worker {group.rank}'s weights are not those of the others; resuming from the newest "
            "checkpoint, before they parted"
        )


def _own_arrays(context: TrainContext) -> Iterable[Array]:
    """Return the arrays of which each worker has a copy."""
    if isinstance(context.trainer, HeldTrainer):
        return [each.data().asnumpy() for each in running_statistics.parameters(context.net)]
    return weights.copy_of(context.net).values()


def snapshot(context: TrainContext, state: TrainState) -> Snapshot:
    """Copy all that the next step depends on into host memory: arrays file by file, and values.

    Arrays that are not held here are asked for when they are written. Diverged where a weight is not finite.
    """
    run, trainer = context.run, context.trainer
    if isinstance(trainer, HeldTrainer):
        is_finite, of_net = stored.are_finite(trainer), stored.weights_of(trainer, context.net)
    else:
        is_finite, of_net = _all_finite(trainer.parameters), weights.copy_of(context.net)
    if not is_finite:
        raise Diverged(f"step {state.step}: weights are not finite; lower --lr, and give another --out")
    optimizer_arrays, update_counts = trainer.optimizer_state()
    files: dict[str, NamedArrays] = {WEIGHTS: of_net, OPTIMIZER: optimizer_arrays}
    of_companions = {name: companion.arrays() for name, companion in context.companions.items()}
    files.update((name, of_companions[name]) for name in COMPANIONS if of_companions.get(name))
    if context.grid is not None and context.grid.units is not None:
        files[GRID] = context.grid.units.arrays()
    values = {
        **dataclasses.asdict(state),
        "update_counts": update_counts,
        "optimizer_numbers": context.extra_optimizer_state.changed(),
        "config": config.to_flat(locations.absolute(run)),
        "modules": locations.modules(run),
        **numeric_environment.here(run, context.group.local_workers),
        "narrow_share": context.built.forecast.share,
        "micro_batch": context.job.plan.batch.micro_batch,
        "units_rule": context.grid.rule if context.grid is not None else grid_units.RULE,
        **{key: value for each in context.companions.values() for key, value in each.values().items()},
        **({"widths": context.built.widths} if context.built.widths else {}),
        "job": context.group.job,
        **context.job.identity.to_dict(),
    }
    aside = None if context.tables is None else _rows_begun(context.tables.owners, run, state.step)
    return Snapshot(state.step, files, values, aside)


def _rows_begun(owners: TableOwners, run: Run, step: int) -> FilesAside:
    """Have the owners of rows begin to write them as they are now, and return where."""
    folder = directory.of_run(Path(run.output.out))
    aside = directory.new_folder_aside(folder, step)
    owners.begin(aside, directory.last_step(folder))
    return FilesAside(aside, owners.write)


def _all_finite(parameters: Sequence[Parameter]) -> bool:
    return precision.all_finite([parameter.list_data()[0] for parameter in parameters])


def restore(context: TrainContext, checkpoint: Checkpoint | None) -> TrainState:
    """Load the checkpoint's arrays into `context` and return its state; the initial state where there is none.

    A collective, because a score that only some disks hold becomes everybody's.
    """
    if checkpoint is None:
        model = context.run.model
        if context.tables is not None:
            first_rows.bring(context.tables, context.run, context.group)
        return TrainState(step=0, scale=precision.initial_loss_scale(model.amp, model.loss_scale))
    path, saved = checkpoint[:2]
    if isinstance(context.trainer, HeldTrainer):
        stored.load_weights(context.trainer, context.net, path / WEIGHTS, context.group.rank == 0)
    else:
        weights.load(context.net, str(path / WEIGHTS))
    context.trainer.load_optimizer_state(str(path / OPTIMIZER), saved["update_counts"])
    if context.tables is not None:
        if context.group.rank == 0:
            context.tables.owners.read(path)
        context.group.sum(0)  # until all rows are there
    context.extra_optimizer_state.restore(saved.get("optimizer_numbers", {}))  # old checkpoints have none
    for name, companion in context.companions.items():
        companion.restore(path / name, saved)
    if context.grid is not None:
        arrays = mx.nd.load(str(path / GRID)) if (path / GRID).is_file() else {}
        rule = saved.get("units_rule", 1)  # old checkpoints have none
        if not context.grid.restore(rule, {name: array.asnumpy() for name, array in arrays.items()}):
            raise UsageError(
                f"{path}: its gradients are added by rule {rule}, this mxtrain knows {grid_units.RULE} and earlier "
                "ones; resume with the mxtrain that wrote it, or give --resume never or another --out"
            )
    logger.info("resuming from %s", path)
    return _share_score(_from_dict(saved), context.group, context.metrics.score.is_lower_better)


def _from_dict(saved: dict[str, Any]) -> TrainState:
    known = {"bad_records": (), "is_lower_better": False, **saved}  # old checkpoints have none
    values = {field.name: known[field.name] for field in dataclasses.fields(TrainState)}
    values["scale"] = LossScale(**values["scale"])
    values["best"] = values["best"] and Best(*values["best"])
    values["bad_records"] = tuple(values["bad_records"])
    return TrainState(**values)


def _share_score(state: TrainState, group: WorkerGroup, is_lower_better: bool = False) -> TrainState:
    """Return the state with the score that any worker's checkpoint holds.

    A step is saved again once it has a score; a process that dies then leaves it on some disks and not on others.
    """
    known = gather(group, [] if state.score is None else [state.score])
    if state.score is None and len(known):
        return state.with_score(float(known[0]), is_lower_better)
    return state
