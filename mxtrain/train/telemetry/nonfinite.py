"""The search for the first layer whose numbers are not finite, and the samples that it happens for.

Owns running one micro-batch imperatively with hooks on every block. `train/nonfinite_errors.py` decides when to look
and what to say.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np

from mxtrain.data.loading.loader import Batch
from mxtrain.data.loading.order import Ints
from mxtrain.models import remat
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.net.to_device import to_device
from mxtrain.train.step import forward

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Device, NDArray


class BlockOutput(NamedTuple):
    """The output of a block, in the order of the forward pass; the first one is the input of the net.

    The graph is cut at each of `arrays`; `ends` are the arrays before the cut.
    """

    name: str
    block: Block | None
    arrays: list[NDArray]
    ends: list[NDArray]


class NonFiniteOrigin(NamedTuple):
    """The first layer that was not finite, and the rows of the micro-batch that it was so for."""

    layer: str
    phase: str  # forward, backward or update
    rows: Ints | Sequence[int]


def find_origin(context: TrainContext, batch: Batch, step: int, scale: float) -> NonFiniteOrigin | None:
    """Return where a micro-batch of training stops being finite; None where it is finite from end to end.

    `step` and `scale` are those of the step that it belonged to, so that the same numbers are computed again.
    """
    size, device = len(batch), context.devices[0]
    with _cut_graph(remat.unwrapped(context.net), device, context.task.contract().noun) as outputs:
        scaled, (loss, *_) = forward(context, batch, device, step, scale)
    for output in outputs:
        for array in output.arrays:
            if not is_finite(array):
                return NonFiniteOrigin(layer_text(output), "forward", _bad_rows(array, size))
    if not is_finite(loss):
        return NonFiniteOrigin("the loss", "forward", _bad_rows(scaled, size))
    return _find_origin_backward(context, scaled, outputs, size)


def find_origin_in_evaluation(context: TrainContext, batch: Batch) -> NonFiniteOrigin | None:
    """Return where a micro-batch of an evaluation stops being finite; None where it is finite from end to end."""
    size, device, net = len(batch), context.devices[0], remat.unwrapped(context.net)
    origins: list[NonFiniteOrigin] = []

    def note(name: str, block: Block, value: Any) -> None:
        bad = [array for array in _arrays(value) if not origins and not is_finite(array)]
        if bad:
            origins.append(
                NonFiniteOrigin(
                    layer_text(BlockOutput(name, block, [], [])), "forward", _bad_rows(bad[0], size)
                )
            )

    with _hooked(net, note, context.task.contract().noun):
        arrays = {name: to_device(array, device) for name, array in batch.arrays.items()}
        losses = context.plain_forward(net, arrays).losses
    if not origins and not is_finite(losses):
        origins.append(NonFiniteOrigin("the loss", "forward", _bad_rows(losses, size)))
    return origins[0] if origins else None


def _find_origin_backward(
    context: TrainContext, scaled: NDArray, outputs: list[BlockOutput], size: int
) -> NonFiniteOrigin | None:
    """Return the first block, from the loss backwards, whose gradients are not finite though those it got were."""
    arrays = [array for output in outputs for array in output.arrays]
    arrays += [p.list_data()[0] for p in context.net.collect_params().values() if p.grad_req != "null"]
    for array in arrays:
        array._fresh_grad = False  # set by the step itself
    sums = {id(scaled): mx.nd.ones_like(scaled)}
    for output in [BlockOutput("the loss", None, [scaled], [scaled]), *reversed(outputs)]:
        arrived = [
            (end, sums[id(array)]) for end, array in zip(output.ends, output.arrays) if id(array) in sums
        ]
        if not arrived:
            continue
        mx.autograd.backward(*map(list, zip(*arrived)))
        for array in [array for array in arrays if array._fresh_grad]:
            array._fresh_grad = False
            gradient = _in_float32(array.grad)
            if not is_finite(gradient):
                return NonFiniteOrigin(layer_text(output), "backward", _bad_rows(gradient, size))
            # grad_req='add' would do it, but silently gives zeros under AMP.
            sums[id(array)] = gradient + sums[id(array)] if id(array) in sums else gradient.copy()
    return None


@contextlib.contextmanager
def _cut_graph(net: Block, device: Device, noun: str) -> Iterator[list[BlockOutput]]:
    """Cut the graph at every block's output inside this block; yields the list that the outputs come into.

    MXNet keeps the gradients of variables only, so each output becomes a variable, which detaches it from the graph
    that computed it. The detached array is one of the output's `ends`.
    """
    outputs: list[BlockOutput] = []
    seen: set[int] = set()
    # An array that no parameter contributes to needs an end too.
    zero = mx.nd.zeros((1,), ctx=device)
    zero.attach_grad()

    def note(name: str, block: Block, value: Any) -> None:
        # A block may return an array that another one returned before.
        arrays = [array for array in _arrays(value) if id(array) not in seen]
        seen.update(map(id, arrays))
        ends = [mx.nd.identity(array) + zero for array in arrays] if block is not None else []
        with mx.autograd.pause():
            gradients = [mx.nd.zeros_like(array).astype(array.dtype) for array in arrays]
        mx.autograd.mark_variables(arrays, gradients)
        outputs.append(BlockOutput(name, block, arrays, ends))

    with _hooked(net, note, noun):
        yield outputs


@contextlib.contextmanager
def _hooked(net: Block, note: Callable[[str, Any, Any], None], noun: str) -> Iterator[None]:
    """Call `note` in this block with the net's input, by the samples' noun, and each block's output, by its name."""

    def note_output(name: str) -> Callable[[Any, Any, Any], None]:
        return lambda block, inputs, output: note(name, block, output)

    handles = [
        net.register_forward_pre_hook(lambda block, inputs: note(f"the {noun}s themselves", None, inputs))
    ]
    handles += [block.register_forward_hook(note_output(name)) for name, block in blocks(net, "")]
    try:
        yield
    finally:
        for handle in handles:
            handle.detach()


def blocks(block: Block, name: str) -> Iterator[tuple[str, Block]]:
    """Yield every block with its place in the net, as its parameters are named in a checkpoint."""
    yield name, block
    for key, child in block._children.items():
        yield from blocks(child, f"{name}.{key}" if name else key)


def layer_text(output: BlockOutput) -> str:
    """Return the name of the layer of an output, and which of its own parameters are not finite."""
    if output.block is None:
        return output.name
    own = output.block._reg_params.items()
    broken = [name for name, parameter in own if not is_finite(parameter.list_data()[0])]
    because = f", whose {' and '.join(broken)} is not finite" if broken else ""
    return f"layer {output.name or 'of the whole net'} ({type(output.block).__name__}){because}"


def own_arrays(block: Block) -> list[NDArray]:
    """Return the parameters that belong to this block and to none inside it, on their first device."""
    return [parameter.list_data()[0] for parameter in block._reg_params.values()]


def largest(array: NDArray) -> float:
    return float(np.abs(_in_float32(array).asnumpy()).max(initial=0.0))


def _arrays(value: Any) -> list[NDArray]:
    """Return the arrays inside a block's input or output: one, or tuples of those."""
    if isinstance(value, (list, tuple)):
        return [array for part in value for array in _arrays(part)]
    return [value] if isinstance(value, mx.nd.NDArray) else []


def is_finite(array: NDArray) -> bool:
    return bool(np.isfinite(_in_float32(array).asnumpy()).all())


def _bad_rows(array: NDArray, size: int) -> Ints:
    """Return the rows that are not finite; all of them where the array has no row for each sample."""
    numbers = _in_float32(array).asnumpy()
    if numbers.shape[:1] != (size,):
        return np.arange(size)
    return np.flatnonzero(~np.isfinite(numbers.reshape(size, -1)).all(axis=1))


def _in_float32(array: NDArray) -> NDArray:
    """NumPy has no bfloat16, and `astype` fails where a kernel has left an array in a layout of its own."""
    wide: NDArray = mx.nd.amp_cast(array, dtype="float32")
    return wide
