"""The errors of a run whose numbers stopped being finite, naming the layer and the samples where that begins.

A step that was not applied has left weights and running statistics alone, and its seeds come from its number, so
computing it again finds the same numbers; so does an evaluation. That happens once, imperatively and slowly, when the
run ends for it. Weights that an update has spoilt are examined as they are. The search itself is `nonfinite.py`'s.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Callable, Iterable

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core import durable
from mxtrain.core.errors import Diverged
from mxtrain.data.interfaces import Records
from mxtrain.data.loading.loader import Batch
from mxtrain.models import remat
from mxtrain.runtime import mx
from mxtrain.train import evaluation
from mxtrain.train.context import TrainContext
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.state import TrainState
from mxtrain.train.step_end import StepResult
from mxtrain.train.telemetry.nonfinite import (
    BlockOutput,
    NonFiniteOrigin,
    blocks,
    find_origin,
    find_origin_in_evaluation,
    is_finite,
    largest,
    layer_text,
    own_arrays,
)

SAMPLES_IN_LINE = 3


def bad_step(
    context: TrainContext,
    batches: Iterable[Batch],
    release: Callable[[Batch], None],
    name_of: Callable[[int], str],
    state: TrainState,
    result: StepResult,
) -> Diverged:
    """Return the error for a run whose last step was not finite, after computing that step again to find out why.

    `batches` are this worker's of that step, each given to `release`; `name_of` names a sample's record. All that is
    found goes into the run folder's logs. Of several workers the first that finds something returns; its error ends
    the others.
    """
    if isinstance(context.net, HeldNet):
        return _of_held(context, state, f"not finite (loss {result.loss:g})", result.loss)
    origin: NonFiniteOrigin | None = None
    of_step: list[int] = []
    samples: list[int] = []
    context.net.hybridize(active=False)
    for batch in batches:
        of_step += batch.request.samples.tolist()
        if origin is None:
            origin = find_origin(context, batch, state.step - 1, state.scale.scale)
            samples = [] if origin is None else batch.request.samples[origin.rows].tolist()
        mx.nd.waitall()  # it reads the batch where the loader has put it
        release(batch)
    _wait_unless_first_finder(context.step_group, origin is not None)
    records = [name_of(sample) for sample in samples]
    path = _write(
        context, state, origin, result.loss, samples=samples, records=records, samples_of_step=of_step
    )
    return Diverged(_line(state, result, origin, samples, path))


def bad_evaluation(context: TrainContext, val: Records, state: TrainState, loss: float) -> Diverged:
    """Return the error for a run whose validation loss is no number; as `bad_step`, over the samples of `val`."""
    if isinstance(context.net, HeldNet):
        return _of_held(context, state, f"the validation loss is {loss}", loss)
    origin: NonFiniteOrigin | None = None
    samples: list[int] = []
    context.net.hybridize(active=False)
    micro_batch = context.job.plan.batch.micro_batch
    with evaluation.open_loader(context.task, val, micro_batch, context.group) as loader:
        for batch in loader:
            origin = find_origin_in_evaluation(context, batch)
            mx.nd.waitall()  # it reads the batch where the loader has put it
            if origin is not None:
                samples = batch.request.samples[origin.rows].tolist()
                break
            loader.release(batch)
            context.group.report_progress()
    _wait_unless_first_finder(context.group, origin is not None)
    records = [val.where(each) for each in samples]
    path = _write(context, state, origin, loss, samples=samples, records=records)
    where = (
        f"it begins in {origin.layer}, for {_sample_list(samples)} of --val"
        if origin
        else "computed again it is finite"
    )
    return Diverged(
        f"step {state.step}: the validation loss is {loss}; {where} ({path}); lower --lr or raise "
        "--warmup-epochs, and give another --out"
    )


def spoilt_weights(context: TrainContext, state: TrainState) -> Diverged:
    """Return the error for a run whose last update left weights that are not finite, with the first such layer."""
    if isinstance(context.net, HeldNet):
        return _of_held(context, state, "weights are not finite, or longer than 1.8e19", None)
    named = list(blocks(remat.unwrapped(context.net), ""))
    lost = [(name, block) for name, block in named if not all(map(is_finite, own_arrays(block)))]
    if lost:
        layer, what = layer_text(BlockOutput(*lost[0], [], [])), "not finite"
    else:
        name, block = max(named, key=lambda each: max(map(largest, own_arrays(each[1])), default=0.0))
        top = max(map(largest, own_arrays(block)))
        layer = f"{layer_text(BlockOutput(name, block, [], []))}, which reaches {top:.2g}"
        what = "longer than 1.8e19, whose square float32 does not hold"
    path = _write(context, state, NonFiniteOrigin(layer, "update", []), None)
    return Diverged(
        f"step {state.step}: weights are {what}, in {layer} ({path}); lower --lr or raise --warmup-epochs, and "
        "give another --out"
    )


def _of_held(context: TrainContext, state: TrainState, what: str, loss: float | None) -> Diverged:
    """Return the error where no layers are here to look at: all workers know as much."""
    path = _write(context, state, None, loss)
    return Diverged(
        f"step {state.step}: {what} ({path}); where it begins is looked for without --hold layers alone; lower --lr or "
        "raise --warmup-epochs, and give another --out"
    )


def _write(
    context: TrainContext,
    state: TrainState,
    origin: NonFiniteOrigin | None,
    loss: float | None,
    **samples: Any,
) -> Path:
    """Write all that is known to logs/diverged.json in the run folder, and return that path."""
    path = Path(context.run.output.out) / "logs" / "diverged.json"
    record = {
        "step": state.step,
        "bad_steps_in_a_row": state.bad_steps_in_a_row,
        "loss": loss if loss is None or math.isfinite(loss) else str(loss),
        "layer": origin and origin.layer,
        "way": origin and origin.phase,
        **{"samples": [], "records": [], "samples_of_step": [], **samples},
    }
    with durable.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def _wait_unless_first_finder(group: WorkerGroup, has_found: bool) -> None:
    """Wait on all workers but the first that has found something: its error ends the others here."""
    finders = group.sum(np.eye(group.world_size)[group.rank] * has_found)
    if int(np.argmax(finders)) != group.rank:
        group.sum([0])


def _line(
    state: TrainState, result: StepResult, origin: NonFiniteOrigin | None, samples: list[int], path: Path
) -> str:
    several = f" in {state.bad_steps_in_a_row} steps in a row" if state.bad_steps_in_a_row > 1 else ""
    head = f"step {state.step}: not finite{several} (loss {result.loss:g})"
    if origin is None:
        where = (
            "computed again, each micro-batch was finite: either the sum of their gradients is longer than 1.8e19, "
            "whose square float32 does not hold, or a DataLoader gave other samples"
        )
    else:
        where = f"it begins in {origin.layer}, {origin.phase}, for {_sample_list(samples)}"
    scale = state.scale
    is_fixed = scale.scale != 1.0 and not scale.dynamic
    cure = "lower --loss-scale" if is_fixed else "raise --warmup-epochs"
    return f"{head}; {where} ({path}); mend that, lower --lr or {cure}, and give another --out"


def _sample_list(samples: list[int]) -> str:
    more = f" and {len(samples) - SAMPLES_IN_LINE} more" if len(samples) > SAMPLES_IN_LINE else ""
    return f"samples {', '.join(map(str, samples[:SAMPLES_IN_LINE]))}{more}"
