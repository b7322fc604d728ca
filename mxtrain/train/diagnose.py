"""Where the numbers stopped being finite: which layer, and for which samples.

A step that was not applied has left weights and running statistics alone, and its seeds come from its number, so
computing it again finds the same numbers; so does an evaluation. That happens once, imperatively and slowly, when the
run ends for it. Weights that an update has spoilt are looked at as they are.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple

import numpy as np

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.config import Run
from mxtrain.core import durable
from mxtrain.core.errors import Diverged
from mxtrain.models import remat
from mxtrain.runtime import mx
from mxtrain.train import evaluate
from mxtrain.train.state import Parts, Progress
from mxtrain.train.step import Outcome, forward
from mxtrain.train.to_device import to_context

SAMPLES_IN_LINE = 3


class Event(NamedTuple):
    """What came out of a block, in the order of the forward pass; first of all, what went into the net.

    The graph is cut at each of `arrays`, and goes on from the loss's side into `ends`.
    """

    name: str
    block: Any | None
    arrays: list[Any]
    ends: list[Any]


class Origin(NamedTuple):
    """The first thing that was not finite, and for which rows of its micro-batch."""

    layer: str
    way: str  # forward, backward or update
    rows: Any


def diverged(
    parts: Parts,
    batches: Iterable[Any],
    release: Callable[[Any], None],
    name_of: Callable[[int], str],
    progress: Progress,
    outcome: Outcome,
    out: Path,
) -> Diverged:
    """How to end a run whose last step, made of `batches`, was not finite; all of it goes into `out`/logs.

    Of several workers one speaks, the first that finds something in its share of the step.
    """
    found: Origin | None = None
    of_step: list[int] = []
    samples: list[int] = []
    parts.net.hybridize(active=False)
    for batch in batches:
        of_step += batch.request.samples.tolist()
        if found is None:
            found = origin(parts, batch, progress.step - 1, progress.scale.scale)
            samples = [] if found is None else batch.request.samples[found.rows].tolist()
        mx.nd.waitall()  # it reads the batch where the loader has put it
        release(batch)
    _wait_unless_speaker(parts.step_group, found is not None)
    records = [name_of(sample) for sample in samples]
    path = _write(
        out, progress, found, outcome.loss, samples=samples, records=records, samples_of_step=of_step
    )
    return Diverged(_line(progress, outcome, found, samples, path))


def diverged_in_evaluation(
    run: Run, parts: Parts, val: Any, progress: Progress, loss: float, out: Path
) -> Diverged:
    """How to end a run whose validation loss is no number: as `diverged`, over the samples of `val`."""
    found: Origin | None = None
    samples: list[int] = []
    parts.net.hybridize(active=False)
    with evaluate.opened(run, val, parts.group) as loader:
        for batch in loader:
            found = _origin_in_evaluation(parts, batch)
            mx.nd.waitall()  # it reads the batch where the loader has put it
            if found is not None:
                samples = batch.request.samples[found.rows].tolist()
                break
            loader.release(batch)
            parts.group.report_progress()
    _wait_unless_speaker(parts.group, found is not None)
    path = _write(out, progress, found, loss, samples=samples, records=[val.where(each) for each in samples])
    where = (
        f"it begins in {found.layer}, for {_shown(samples)} of --val"
        if found
        else "computed again it is finite"
    )
    return Diverged(
        f"step {progress.step}: the validation loss is {loss}; {where} ({path}); lower --lr or raise "
        "--warmup-epochs, and give another --out"
    )


def lost_weights(parts: Parts, progress: Progress, out: Path) -> Diverged:
    """How to end a run whose last update left weights that nothing can go on from: the first layer that has such."""
    context, blocks = parts.contexts[0], list(_blocks(remat.unwrapped(parts.net), ""))
    lost = [(name, block) for name, block in blocks if not all(map(_is_finite, _own(block, context)))]
    if lost:
        layer, what = _described(Event(*lost[0], [], []), context), "not finite"
    else:
        name, block = max(blocks, key=lambda each: max(map(_largest, _own(each[1], context)), default=0.0))
        largest = max(map(_largest, _own(block, context)))
        layer = f"{_described(Event(name, block, [], []), context)}, which reaches {largest:.2g}"
        what = "longer than 1.8e19, whose square float32 does not hold"
    path = _write(out, progress, Origin(layer, "update", []), None)
    return Diverged(
        f"step {progress.step}: weights are {what}, in {layer} ({path}); lower --lr or raise --warmup-epochs, and "
        "give another --out"
    )


def _write(out: Path, progress: Progress, found: Origin | None, loss: float | None, **samples: Any) -> Path:
    """Keep all that is known in `out`/logs."""
    path = out / "logs" / "diverged.json"
    record = {
        "step": progress.step,
        "bad_steps_in_a_row": progress.bad_steps_in_a_row,
        "loss": loss if loss is None or math.isfinite(loss) else str(loss),
        "layer": found and found.layer,
        "way": found and found.way,
        **{"samples": [], "records": [], "samples_of_step": [], **samples},
    }
    with durable.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def _wait_unless_speaker(group: WorkerGroup, has_found: bool) -> None:
    """Until the reason comes that the speaker ends everybody with."""
    finders = group.sum(np.eye(group.world_size)[group.rank] * has_found)
    if int(np.argmax(finders)) != group.rank:
        group.sum([0])


def _line(progress: Progress, outcome: Outcome, found: Origin | None, samples: list[int], path: Path) -> str:
    several = f" in {progress.bad_steps_in_a_row} steps in a row" if progress.bad_steps_in_a_row > 1 else ""
    head = f"step {progress.step}: not finite{several} (loss {outcome.loss:g})"
    if found is None:
        where = (
            "computed again, each micro-batch was finite: either the sum of their gradients is longer than 1.8e19, "
            "whose square float32 does not hold, or a DataLoader gave other samples"
        )
    else:
        where = f"it begins in {found.layer}, {found.way}, for {_shown(samples)}"
    scale = progress.scale
    is_fixed = scale.scale != 1.0 and not scale.dynamic
    cure = "lower --loss-scale" if is_fixed else "raise --warmup-epochs"
    return f"{head}; {where} ({path}); mend that, lower --lr or {cure}, and give another --out"


def _shown(samples: list[int]) -> str:
    more = f" and {len(samples) - SAMPLES_IN_LINE} more" if len(samples) > SAMPLES_IN_LINE else ""
    return f"samples {', '.join(map(str, samples[:SAMPLES_IN_LINE]))}{more}"


def origin(parts: Parts, batch: Any, step: int, scale: float) -> Origin | None:
    """Where one micro-batch stops being finite, None where it is finite from end to end."""
    size, context = len(batch.label), parts.contexts[0]
    with _cut_up(remat.unwrapped(parts.net), context) as events:
        scaled, (loss, _) = forward(parts, batch, context, step, scale)
    for event in events:
        for array in event.arrays:
            if not _is_finite(array):
                return Origin(_described(event, context), "forward", _bad_rows(array, size))
    if not _is_finite(loss):
        return Origin("the loss", "forward", _bad_rows(scaled, size))
    return _origin_backward(parts, scaled, events, size)


def _origin_in_evaluation(parts: Parts, batch: Any) -> Origin | None:
    """Where a micro-batch that is judged stops being finite."""
    size, context, net = len(batch.label), parts.contexts[0], remat.unwrapped(parts.net)
    found: list[Origin] = []

    def note(name: str, block: Any, value: Any) -> None:
        bad = [array for array in _arrays(value) if not found and not _is_finite(array)]
        if bad:
            found.append(
                Origin(_described(Event(name, block, [], []), context), "forward", _bad_rows(bad[0], size))
            )

    with _hooked(net, note):
        output = net(to_context(batch.data, context)).astype("float32", copy=False)
    losses = parts.plain_loss(output, to_context(batch.label, context))
    if not found and not _is_finite(losses):
        found.append(Origin("the loss", "forward", _bad_rows(losses, size)))
    return found[0] if found else None


def _origin_backward(parts: Parts, scaled: Any, events: list[Event], size: int) -> Origin | None:
    """From the loss back, block by block: the first that makes of finite gradients what is not."""
    context = parts.contexts[0]
    arrays = [array for event in events for array in event.arrays]
    arrays += [p.data(context) for p in parts.net.collect_params().values() if p.grad_req != "null"]
    for array in arrays:
        array._fresh_grad = False  # what the step itself has left
    sums = {id(scaled): mx.nd.ones_like(scaled)}
    for event in [Event("the loss", None, [scaled], [scaled]), *reversed(events)]:
        reached = [
            (end, sums[id(array)]) for end, array in zip(event.ends, event.arrays) if id(array) in sums
        ]
        if not reached:
            continue
        mx.autograd.backward(*map(list, zip(*reached)))
        for array in [array for array in arrays if array._fresh_grad]:
            array._fresh_grad = False
            gradient = _in_float32(array.grad)
            if not _is_finite(gradient):
                return Origin(_described(event, context), "backward", _bad_rows(gradient, size))
            # grad_req='add' would do it, but silently gives zeros under AMP.
            sums[id(array)] = gradient + sums[id(array)] if id(array) in sums else gradient.copy()
    return None


@contextlib.contextmanager
def _cut_up(net: Any, context: Any) -> Iterator[list[Event]]:
    """The events of the forward pass inside this block.

    MXNet tells the gradients of variables only, so each output is made one, which cuts it off from what it came
    from; what is left of that is its end.
    """
    events: list[Event] = []
    seen: set[int] = set()
    # Also what no parameter has a part in needs an end.
    zero = mx.nd.zeros((1,), ctx=context)
    zero.attach_grad()

    def note(name: str, block: Any, value: Any) -> None:
        # A block may hand on what another gave it.
        arrays = [array for array in _arrays(value) if id(array) not in seen]
        seen.update(map(id, arrays))
        ends = [mx.nd.identity(array) + zero for array in arrays] if block is not None else []
        with mx.autograd.pause():
            gradients = [mx.nd.zeros_like(array).astype(array.dtype) for array in arrays]
        mx.autograd.mark_variables(arrays, gradients)
        events.append(Event(name, block, arrays, ends))

    with _hooked(net, note):
        yield events


@contextlib.contextmanager
def _hooked(net: Any, note: Callable[[str, Any, Any], None]) -> Iterator[None]:
    """Inside this block `note` is told what goes into the net and what comes out of each of its blocks, by name."""

    def note_output(name: str) -> Callable[[Any, Any, Any], None]:
        return lambda block, inputs, output: note(name, block, output)

    handles = [
        net.register_forward_pre_hook(lambda block, inputs: note("the pictures themselves", None, inputs))
    ]
    handles += [block.register_forward_hook(note_output(name)) for name, block in _blocks(net, "")]
    try:
        yield
    finally:
        for handle in handles:
            handle.detach()


def _blocks(block: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every block by its place in the net, as its parameters are named in a checkpoint."""
    yield name, block
    for key, child in block._children.items():
        yield from _blocks(child, f"{name}.{key}" if name else key)


def _described(event: Event, context: Any) -> str:
    if event.block is None:
        return event.name
    own = event.block._reg_params.items()
    broken = [name for name, parameter in own if not _is_finite(parameter.data(context))]
    because = f", whose {' and '.join(broken)} is not finite" if broken else ""
    return f"layer {event.name or 'of the whole net'} ({type(event.block).__name__}){because}"


def _own(block: Any, context: Any) -> list[Any]:
    """The parameters that belong to this block and to none inside it."""
    return [parameter.data(context) for parameter in block._reg_params.values()]


def _largest(array: Any) -> float:
    return float(np.abs(_in_float32(array).asnumpy()).max(initial=0.0))


def _arrays(value: Any) -> list[Any]:
    """The arrays inside what a block took or gave: one, or tuples of those."""
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in _arrays(part)]
    return [value] if isinstance(value, mx.nd.NDArray) else []


def _is_finite(array: Any) -> bool:
    return bool(np.isfinite(_in_float32(array).asnumpy()).all())


def _bad_rows(array: Any, size: int) -> Any:
    """The rows that are not finite; all where the array has no row for each sample."""
    numbers = _in_float32(array).asnumpy()
    if numbers.shape[:1] != (size,):
        return np.arange(size)
    return np.flatnonzero(~np.isfinite(numbers.reshape(size, -1)).all(axis=1))


def _in_float32(array: Any) -> Any:
    """NumPy has no bfloat16, and `astype` fails where a kernel has left an array in a layout of its own."""
    return mx.nd.amp_cast(array, dtype="float32")
