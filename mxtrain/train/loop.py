"""A run from its first step to its last: `run` tells it top to bottom.

Owns the order of events. What happens inside a step is `step.py`'s, what a batch is made of `data`'s, and what a
checkpoint holds `state.py`'s.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from pathlib import Path
from typing import Any, Iterator

from mxtrain.config import Run
from mxtrain.data import order, visits
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.fill import Fill
from mxtrain.data.given import GivenBatches
from mxtrain.data.loader import Loader, Request, way_of
from mxtrain.data.pixels import Transform
from mxtrain.errors import Diverged, Stop
from mxtrain.layout import batch_plan
from mxtrain.report.writers import Record, open_sinks
from mxtrain.train import early_stop, schedules, state
from mxtrain.train.checkpoint import Checkpoint
from mxtrain.train.diagnose import diverged
from mxtrain.train.ema import averaged
from mxtrain.train.evaluate import evaluate, resize_of
from mxtrain.train.handover import dtype_of
from mxtrain.train.saving import Saver
from mxtrain.train.state import Parts, Progress
from mxtrain.train.step import Outcome, train_step

logger = logging.getLogger(__name__)


def run(
    run: Run, train: Any, val: Any | None, data: dict[str, Any], resume: Checkpoint | None, wishes: list[Stop]
) -> None:
    """Train as `run` says on the records `train`, which `data` describes, from the beginning or a checkpoint."""
    out = Path(run.keep.out)
    steps_per_epoch, num_steps = schedules.length(run.optim, len(train))
    rate_of = schedules.of_run(run.optim, steps_per_epoch, num_steps)
    parts = state.build(run, len(data["class_names"]))
    progress = state.restore(run, parts, resume)
    if progress.step >= num_steps:
        logger.info(
            "nothing left to do: all %d steps are done; more --epochs would go on from here", num_steps
        )

    sinks = open_sinks(run.keep.log, out, num_steps, progress.step, progress.score is not None)
    with sinks as write, Saver(run.keep) as saver:
        requests = _requests(run, train, progress.step, num_steps)
        with _open_loader(run, train, requests, len(data["class_names"])) as loader:
            saved = progress
            while True:
                # Between two steps, in this order: save, end, evaluate.
                wish = wishes[0] if wishes else None  # once: a signal may come between two looks
                epoch = math.ceil(progress.step / steps_per_epoch)
                ended = progress.step > 0 and progress.step in (epoch * steps_per_epoch, num_steps)
                if progress != saved and saver.is_due(progress.step, anyway=ended or wish is not None):
                    saver.save(state.snapshot(run, parts, progress, data))
                    saved = progress
                unscored = ended and val is not None and progress.score is None
                over = early_stop.is_over(progress.best, run.optim.early_stop)
                if (progress.step >= num_steps or over) and not unscored:
                    break
                if wish:
                    raise wish
                if unscored:
                    progress = _scored(run, parts, val, progress, epoch, wishes, write)
                    continue

                started, step = time.monotonic(), progress.step
                batches = itertools.islice(loader, _num_micro_batches(run, len(train), step))
                rate = rate_of(step)
                outcome = train_step(parts, batches, loader.release, step, rate, progress.scale)
                progress = progress.after(outcome)
                record = _step_record(
                    progress, step // steps_per_epoch + 1, rate, outcome, time.monotonic() - started
                )
                write(record if not loader.skipped else {**record, "bad_records": len(loader.skipped)})
                if not outcome.applied:
                    _tell_or_end(run, parts, train, data, progress, outcome)
    if over and progress.best:
        logger.info(
            "--early-stop: no better score than %.4f of step %d", progress.best.score, progress.best.step
        )


def _scored(
    run: Run, parts: Parts, val: Any, progress: Progress, epoch: int, wishes: list[Stop], write: Any
) -> Progress:
    """With an evaluation's score; without one where a wish cuts it short, and whoever goes on evaluates first."""
    with averaged(parts.ema):
        found = evaluate(run, parts.net, val, parts.contexts, wishes)
    if found is None:
        return progress
    write({"kind": "eval", "step": progress.step, "epoch": epoch, **found})
    _refuse_no_loss(found["val_loss"], progress.step)
    return progress.scored(found["val_accuracy"])


def _requests(run: Run, records: Any, first_step: int, num_steps: int) -> Iterator[Request]:
    """Every micro-batch from `first_step` on, in order; going on in the middle of an epoch is slicing."""
    optim, micro_batch = run.optim, batch_plan(run).micro_batch
    steps_per_epoch = order.steps_per_epoch(len(records), optim.batch_size)
    samples_of = visits.of_run(run, records)
    for epoch, steps in itertools.groupby(
        range(first_step, num_steps), key=lambda step: step // steps_per_epoch
    ):
        samples = samples_of(epoch)
        for step in steps:
            of_step = order.step_samples(samples, step % steps_per_epoch, optim.batch_size)
            for position, part in enumerate(order.micro_batches(of_step, micro_batch)):
                yield Request(step, position, epoch, part)


def _num_micro_batches(run: Run, num_samples: int, step: int) -> int:
    """How many requests make up this step; the last one of an epoch may be short."""
    first = step % order.steps_per_epoch(num_samples, run.optim.batch_size) * run.optim.batch_size
    return math.ceil(min(run.optim.batch_size, num_samples - first) / batch_plan(run).micro_batch)


def _open_loader(run: Run, records: Any, requests: Iterator[Request], num_classes: int) -> Any:
    if isinstance(records, GivenBatches):
        return records.loader(requests, num_classes)
    size = run.data.image_size
    fill = Fill(records, _transform(run), run.optim.seed, run.data.skip_bad)
    return Loader(fill, (3, size, size), requests, way_of(run.data), dtype_of(run))


def _transform(run: Run) -> Transform:
    size = run.data.image_size
    if run.optim.overfit:
        return eval_transform(size, resize_of(run))
    return train_transform(run.data.augment, size)


def _step_record(progress: Progress, epoch: int, rate: float, outcome: Outcome, seconds: float) -> Record:
    record: dict[str, Any] = {
        "kind": "train",
        "step": progress.step,
        "epoch": epoch,
        "loss": outcome.loss,
        "lr": rate,
        "accuracy": outcome.accuracy,
        "gradient_norm": outcome.gradient_norm,
        "images_per_second": outcome.num_samples / seconds,
        "seconds": seconds,
    }
    if outcome.scale.dynamic:
        record.update(loss_scale=outcome.scale.scale)
    if outcome.scale.dynamic or progress.skipped_steps:
        record.update(applied=outcome.applied, skipped_steps=progress.skipped_steps)
    return record


def _tell_or_end(
    run: Run, parts: Parts, train: Any, data: dict[str, Any], progress: Progress, outcome: Outcome
) -> None:
    """The last step was skipped; as one bad step too many, it is taken once more, to find where it goes wrong."""
    bad, most = progress.bad_steps_in_a_row, run.optim.max_bad_steps
    if bad >= most:
        again = _requests(run, train, progress.step - 1, progress.step)
        with _open_loader(run, train, again, len(data["class_names"])) as batches:
            out = Path(run.keep.out)
            raise diverged(parts, batches, batches.release, train.where, progress, outcome, out)
    if bad:
        logger.warning("step %d skipped: not finite; %d of %d in a row end the run", progress.step, bad, most)
    else:
        scale = outcome.scale.scale
        logger.info("step %d skipped: gradients overflow; the loss scale is now %g", progress.step, scale)


def _refuse_no_loss(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise Diverged(f"step {step}: the validation loss is {loss}; lower --lr, and give another --out")
