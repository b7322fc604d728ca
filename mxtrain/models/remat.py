"""Less memory for more time: activations are computed again in the backward pass (`--remat`).

The net is cut into segments (`segments.py`). The forward pass keeps only what goes from one to the next; the backward
pass computes each segment once more, the last one first, and goes through it. MXNet has nothing that does this: its
MXNET_BACKWARD_DO_MIRROR and MXNET_MEMORY_OPT change nothing.
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


class Kept(NamedTuple):
    """What a segment needs to compute again what it computed: its input, and the seed of its random numbers."""

    start: Any
    seed: int | None


class Cast(mx.gluon.HybridBlock):
    """To another type, within a graph."""

    def __init__(self, dtype: Any):
        super().__init__(prefix="")
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.cast(x, dtype=self._dtype)


class Recomputed(mx.gluon.Block):
    """A net in segments. Its parameters have the names that they have without."""

    def __init__(self, net: Any, parts: Sequence[Sequence[Any]], picture_shape: tuple[int, ...]):
        super().__init__(prefix="")
        self.net = net
        # MXNet's bfloat16 arrays do not survive from one graph to another: float32 is what goes between.
        types = [*_types_between(parts, picture_shape), None]
        self._segments = [
            _segment(of_segment, *between) for of_segment, *between in zip(parts, [None, *types], types)
        ]
        self._draws = [_draws(segment) for segment in self._segments]
        self._running = [running_statistics(segment) for segment in self._segments]
        self._first = _first_trained(self._segments)
        self._whole = False
        self._under_way: dict[Any, list[Kept]] = {}

    def collect_params(self, select: str | None = None) -> Any:
        return self.net.collect_params(select)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Any]:
        named: dict[str, Any] = self.net._collect_params_with_prefix(prefix)
        return named

    def hybridize(self, active: bool = True, **_: Any) -> None:
        """Inactive it is the plain net, from end to end, for who wants to look into it."""
        self._whole = not active
        self.net.hybridize(active=False)

    def forward(self, data: Any) -> Any:
        """Recorded is only the last segment: nothing comes between its two passes, so it is not computed again."""
        if self._whole:
            return self.net(data)
        if not mx.autograd.is_recording():
            return segments.chain(self._segments, data)
        kept = []
        with mx.autograd.pause(train_mode=True):
            for segment, draws, running in zip(self._segments[:-1], self._draws, self._running):
                seed = _draw_seed(data.context) if draws else None
                kept.append(Kept(data, seed))
                _seed(seed, data.context)
                # On a GPU a BatchNorm moves its running statistics here, on a CPU in the backward pass; put back
                # what was, and both move them once, in the second computation.
                before = [parameter.data(data.context).copy() for parameter in running]
                data = segment(data)
                # MXNet gives memory to operators as they are called, so without this to all segments at once.
                data.wait_to_read()
                for parameter, value in zip(running, before):
                    parameter.data(data.context)[:] = value
        data.attach_grad()
        self._under_way[data.context] = [*kept, Kept(data, None)]
        return self._segments[-1](data)

    def finish_backward(self, context: Any) -> None:
        """After `backward` has gone through the loss and the last segment: through the others that it concerns."""
        kept = self._under_way.pop(context)
        gradient = kept.pop().start.grad
        # What comes before all that trains matters only to who wants the gradient of the pictures.
        first = self._first if kept[0].start.grad is None else 0
        for place in reversed(range(first, len(self._segments) - 1)):
            mx.nd.waitall()
            segment, (start, seed) = self._segments[place], kept.pop()
            if place > first:
                start.attach_grad()
            _seed(seed, context)
            with mx.autograd.record():
                output = segment(start)
            output.backward(gradient)
            gradient = start.grad
            del output, start


def recomputed(net: Any, name: str, picture_shape: tuple[int, ...]) -> Recomputed:
    """The net, computed in segments from now on; UsageError, by `name`, where it cannot be cut."""
    net.hybridize(active=False)
    cut = Recomputed(net, segments.split(net, name, picture_shape), picture_shape)
    # glibc keeps freed blocks below its threshold, which grows up to 32 MB: that would be most of what is saved.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, HALF_A_MEGABYTE)
    return cut


def finish_backward(net: Any, context: Any) -> None:
    """Nothing, for a net that is not recomputed."""
    if isinstance(net, Recomputed):
        net.finish_backward(context)


def plain(net: Any) -> Any:
    """The net itself, whether or not it is recomputed."""
    return net.net if isinstance(net, Recomputed) else net


def _segment(parts: Sequence[Any], takes: Any, gives: Any) -> Any:
    """The parts as one graph between float32 arrays, though inside they take and give other types."""
    segment = mx.gluon.nn.HybridSequential(prefix="")
    before = [] if takes in (None, np.float32) else [Cast(takes)]
    after = [] if gives in (None, np.float32) else [Cast("float32")]
    segment.add(*before, *parts, *after)
    # A static graph would hold on to its memory between the passes.
    segment.hybridize()
    return segment


def _types_between(parts: Sequence[Sequence[Any]], picture_shape: tuple[int, ...]) -> list[Any]:
    """What type each segment but the last gives, seen on a picture."""
    parameter = next(iter(parts[0][0].collect_params().values()), None)
    data = mx.nd.zeros(picture_shape, ctx=parameter.list_ctx()[0] if parameter else mx.cpu())
    types = []
    for of_segment in parts[:-1]:
        data = segments.chain(of_segment, data)
        types.append(data.dtype)
    return types


def _first_trained(parts: Sequence[Any]) -> int:
    """The first segment that has a parameter which trains."""
    return next(
        place
        for place, segment in enumerate(parts)
        if any(parameter.grad_req != "null" for parameter in segment.collect_params().values())
    )


def _draws(segment: Any) -> bool:
    """Whether a segment draws random numbers."""
    return any(RANDOM.search(node.operator + str(node.attributes)) for node in graph.trace(segment))


def _draw_seed(context: Any) -> int:
    """From the stream that the step has seeded; MXNet cannot tell where in it the segment begins."""
    return int(mx.nd.random.randint(0, LARGEST_SEED, shape=(1,), ctx=context).asscalar())


def _seed(seed: int | None, context: Any) -> None:
    if seed is not None:
        mx.random.seed(seed, ctx=context)
