"""Activation recomputation (`--remat`): less memory for more time.

Owns the two passes. The net is cut into segments (`segments.py`). The forward pass keeps only what one segment passes
to the next; the backward pass computes each segment once more, the last one first, and goes through it. MXNet has
nothing that does this: its MXNET_BACKWARD_DO_MIRROR and MXNET_MEMORY_OPT change nothing.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any, NamedTuple, Sequence

import numpy as np

from mxtrain.models import graph, segments
from mxtrain.models.running_statistics import parameters as running_statistics
from mxtrain.runtime import mx

LARGEST_SEED = 2**31 - 1
RANDOM = re.compile("Dropout|random|sample|shuffle|rrelu", re.IGNORECASE)
M_MMAP_THRESHOLD, HALF_A_MEGABYTE = -3, 1 << 19  # mallopt's


class SegmentInput(NamedTuple):
    """A segment's input and the seed of its random numbers, from which it can be computed again."""

    data: Any
    seed: int | None


class Cast(mx.gluon.HybridBlock):
    """A cast to another type within a graph."""

    def __init__(self, dtype: Any):
        super().__init__(prefix="")
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, dtype=self._dtype)


class RecomputedNet(mx.gluon.Block):
    """A net computed in segments. Its parameters have the same names as the net's."""

    def __init__(self, net: Any, parts: Sequence[Sequence[Any]], picture_shape: tuple[int, ...]):
        super().__init__(prefix="")
        self.net = net
        # With --amp fp16 parts may take and give float16; segments pass float32.
        types = [*_types_between(parts, picture_shape), None]
        self._segments = [
            _segment(of_segment, *between) for of_segment, *between in zip(parts, [None, *types], types)
        ]
        _make_graphs(self._segments, picture_shape)
        self._draws = [_draws(segment) for segment in self._segments]
        self._running = [running_statistics(segment) for segment in self._segments]
        self._first = _first_trained(self._segments)
        self._is_plain = False
        self._pending: dict[Any, list[SegmentInput]] = {}

    def collect_params(self, select: str | None = None) -> Any:
        return self.net.collect_params(select)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Any]:
        named: dict[str, Any] = self.net._collect_params_with_prefix(prefix)
        return named

    def hybridize(self, active: bool = True, **_: Any) -> None:
        """Compute in segments if active; otherwise by the plain net, whose layers a diagnosis can then observe."""
        self._is_plain = not active
        self.net.hybridize(active=False)

    def forward(self, data: Any) -> Any:
        """Compute the net, recording only the last segment: its backward pass follows, so it is not computed again."""
        if self._is_plain:
            return self.net(data)
        if not mx.autograd.is_recording():
            return segments.chain(self._segments, data)
        kept = []
        with mx.autograd.pause(train_mode=True):
            for segment, draws, running in zip(self._segments[:-1], self._draws, self._running):
                seed = _draw_seed(data.context) if draws else None
                kept.append(SegmentInput(data, seed))
                _seed(seed, data.context)
                # On a GPU a BatchNorm moves its running statistics here, on a CPU in the backward pass. They are
                # restored, so that both move them once, in the second computation.
                before = [parameter.data(data.context).copy() for parameter in running]
                data = segment(data)
                # MXNet allocates memory when operators are called: without waiting, for all segments at once.
                data.wait_to_read()
                for parameter, value in zip(running, before):
                    parameter.data(data.context)[:] = value
        data.attach_grad()
        self._pending[data.context] = [*kept, SegmentInput(data, None)]
        return self._segments[-1](data)

    def finish_backward(self, context: Any) -> None:
        """Continue `backward`, which has gone through the loss and the last segment, through the other segments."""
        kept = self._pending.pop(context)
        gradient = kept.pop().data.grad
        # Segments before all that trains matter only if the gradient of the pictures is wanted.
        first = self._first if kept[0].data.grad is None else 0
        for place in reversed(range(first, len(self._segments) - 1)):
            mx.nd.waitall()
            segment, (data, seed) = self._segments[place], kept.pop()
            if place > first:
                data.attach_grad()
            _seed(seed, context)
            with mx.autograd.record():
                output = segment(data)
            output.backward(gradient)
            gradient = data.grad
            del output, data


def recompute(net: Any, name: str, picture_shape: tuple[int, ...]) -> RecomputedNet:
    """Return the net computed in segments; UsageError, which names the model `name`, if it cannot be cut."""
    net.hybridize(active=False)
    cut = RecomputedNet(net, segments.split(net, name, picture_shape), picture_shape)
    # glibc keeps freed blocks below a threshold that grows up to 32 MB, which would be most of what is saved.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, HALF_A_MEGABYTE)
    return cut


def finish_backward(net: Any, context: Any) -> None:
    """Complete a backward pass on `context`; does nothing for a net that is not recomputed."""
    if isinstance(net, RecomputedNet):
        net.finish_backward(context)


def unwrapped(net: Any) -> Any:
    """Return the net itself, whether or not it is recomputed."""
    return net.net if isinstance(net, RecomputedNet) else net


def _segment(parts: Sequence[Any], input_type: Any, output_type: Any) -> Any:
    """Return the parts as one graph from float32 to float32, though inside they take and give other types."""
    segment = mx.gluon.nn.HybridSequential(prefix="")
    before = [] if input_type in (None, np.float32) else [Cast(input_type)]
    after = [] if output_type in (None, np.float32) else [Cast("float32")]
    segment.add(*before, *parts, *after)
    # A static graph would hold its memory between the passes.
    segment.hybridize()
    return segment


def _make_graphs(parts: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Make each segment's graph for inputs of this shape, and not of that which happens to come first."""
    for segment in parts:
        context = next((each.list_ctx()[0] for each in segment.collect_params().values()), mx.cpu())
        (data,), output = segment._get_graph(mx.nd.zeros(shape, ctx=context))
        (shape,) = output.infer_shape(**{data.name: shape})[1]


def _types_between(parts: Sequence[Sequence[Any]], picture_shape: tuple[int, ...]) -> list[Any]:
    """Return the output type of each segment but the last, found by running one picture."""
    parameter = next(iter(parts[0][0].collect_params().values()), None)
    data = mx.nd.zeros((1, *picture_shape[1:]), ctx=parameter.list_ctx()[0] if parameter else mx.cpu())
    types = []
    for of_segment in parts[:-1]:
        data = segments.chain(of_segment, data)
        types.append(data.dtype)
    return types


def _first_trained(parts: Sequence[Any]) -> int:
    """Return the position of the first segment that has a parameter which trains."""
    return next(
        place
        for place, segment in enumerate(parts)
        if any(parameter.grad_req != "null" for parameter in segment.collect_params().values())
    )


def _draws(segment: Any) -> bool:
    """Return whether a segment draws random numbers."""
    return any(RANDOM.search(node.operator + str(node.attributes)) for node in graph.trace(segment))


def _draw_seed(context: Any) -> int:
    """Draw a seed from the stream that the step has seeded, as MXNet cannot return to a position in a stream."""
    return int(mx.nd.random.randint(0, LARGEST_SEED, shape=(1,), ctx=context).asscalar())


def _seed(seed: int | None, context: Any) -> None:
    if seed is not None:
        mx.random.seed(seed, ctx=context)
