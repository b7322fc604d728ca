"""Activation recomputation (`--remat`): less memory for more time.

Owns the two passes. The net is cut into segments (`segments.py`). The forward pass keeps only what one segment passes
to the next; the backward pass computes each segment once more, the last one first, and goes through it. MXNet has
nothing that does this: its MXNET_BACKWARD_DO_MIRROR and MXNET_MEMORY_OPT change nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import re
import warnings
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models import answers, segments
from mxtrain.models.compiled_graphs import JUDGING, AnsweringGraph, purpose_of_now
from mxtrain.models.parameters.running_statistics import parameters as running_statistics
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import Graph, Shapes
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Device, NDArray, Parameter, ParameterDict, Symbol

LARGEST_SEED = 2**31 - 1
RANDOM = re.compile("Dropout|random|sample|shuffle|rrelu", re.IGNORECASE)
STATIC = {"static_alloc": True, "static_shape": True}  # a CachedOp's memory
M_MMAP_THRESHOLD, HALF_A_MEGABYTE = -3, 1 << 19  # mallopt's


class SegmentInput(NamedTuple):
    """A segment's input and the seed of its random numbers, from which it can be computed again."""

    data: Any
    seed: int | None


class Cut(NamedTuple):
    """A net's graph in segments."""

    flag: str  # that asks for them
    graphs: Sequence[Graph]
    data: str  # the name of the net's input
    whole: Any  # the inputs and the output of the graph that was cut
    queueing: Mapping[str, int]  # how MXNet queues the net's operators, if that is not as by default
    num_bytes: int = 0  # about what is computed at a time; 0 where that is not known


class WholeGraph(NamedTuple):
    """The graph of a compiled net, with what its parts have to know."""

    nodes: Graph
    shapes: Shapes  # of the nodes' outputs
    data: str  # the name of its input
    queueing: Mapping[str, int]  # see `Cut`


class SegmentedNet(mx.gluon.Block):
    """A net that is computed in segments. Its parameters have the same names as the net's.

    Answers keep nothing for a backward pass: while its weights stand still (`standing_still`) it computes them whole.
    """

    def __init__(self, net: Block, cut: Cut):
        super().__init__(prefix="")
        self.net = net
        self.flag, self.whole_graph, self.num_bytes = cut.flag, cut.whole, cut.num_bytes
        self.takes_data = [cut.data in names(graph) for graph in cut.graphs]  # besides what is handed on
        self.is_random = [_is_random(graph) for graph in cut.graphs]
        self.first_trained = _first_trained(cut.graphs, net.collect_params())
        self._queueing = cut.queueing
        self._answers: AnsweringGraph | None = None  # while weights stand still

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """A block in which the net answers as `answers.standing_still` says."""
        self._answers = answers.graph_of(self.net, {**STATIC, **self._queueing})
        try:
            yield
        finally:
            self._answers = None

    def forward(self, data: NDArray) -> NDArray:
        """Compute the net."""
        found = self._answers(data) if self._answers is not None and purpose_of_now() == JUDGING else None
        return self.in_segments(data) if found is None else found

    def in_segments(self, data: NDArray) -> NDArray:
        """Compute the net one segment after the other."""
        raise NotImplementedError

    def collect_params(self, select: str | None = None) -> ParameterDict:
        return self.net.collect_params(select)

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        named: dict[str, Any] = self.net._collect_params_with_prefix(prefix)
        return named


class RecomputedNet(SegmentedNet):
    """A net whose segments are computed again in the backward pass."""

    def __init__(self, net: Block, cut: Cut):
        super().__init__(net, cut)
        parameters = net.collect_params()
        self._segments = [_segment(graph, parameters, cut.data, cut.queueing) for graph in cut.graphs]
        moving = running_statistics(net)
        self._running = [[each for each in moving if each.name in known] for known in map(names, cut.graphs)]
        self._is_plain = False
        self._pending: dict[Any, list[SegmentInput]] = {}

    def hybridize(self, active: bool = True, **_: Any) -> None:
        """Compute in segments if active; otherwise by the plain net, whose layers a diagnosis can then observe."""
        self._is_plain = not active
        self.net.hybridize(active=False)

    def in_segments(self, data: NDArray) -> NDArray:
        """Compute the net, recording only the last segment: its backward pass follows, so it is not computed again."""
        if self._is_plain:
            return self.net(data)
        if not mx.autograd.is_recording():
            return functools.reduce(
                lambda passed, place: self._computed(place, passed, data), range(len(self._segments)), data
            )
        kept, passed = [], data
        with mx.autograd.pause(train_mode=True):
            for place, (draws, running) in enumerate(zip(self.is_random[:-1], self._running)):
                seed = draw_seed(data.context) if draws else None
                kept.append(SegmentInput(passed, seed))
                set_seed(seed, data.context)
                # On a GPU a BatchNorm moves its running statistics here, on a CPU in the backward pass. They are
                # restored, so that both move them once, in the second computation.
                before = [parameter.data(data.context).copy() for parameter in running]
                passed = self._computed(place, passed, data)
                # MXNet allocates memory when operators are called: without waiting, for all segments at once.
                passed.wait_to_read()
                for parameter, value in zip(running, before):
                    parameter.data(data.context)[:] = value
        passed.attach_grad()
        self._pending[data.context] = [*kept, SegmentInput(passed, None)]
        return self._computed(len(self._segments) - 1, passed, data)

    def _computed(self, place: int, passed: NDArray, data: NDArray) -> NDArray:
        """Return what a segment makes of what the one before it has `passed`; `data` is the net's input."""
        return self._segments[place](passed, *([data] if self.takes_data[place] else []))

    def finish_backward(self, context: Device) -> None:
        """Continue `backward`, which has gone through the loss and the last segment, through the other segments."""
        kept = self._pending.pop(context)
        gradient = kept.pop().data.grad
        # Segments before all that trains matter only if the gradient of the pictures is wanted.
        net_input = kept[0].data
        first = self.first_trained if net_input.grad is None else 0
        for place in reversed(range(first, len(self._segments) - 1)):
            mx.nd.waitall()
            data, seed = kept.pop()
            if place > first:
                data.attach_grad()
            set_seed(seed, context)
            with mx.autograd.record():
                output = self._computed(place, data, net_input)
            output.backward(gradient)
            gradient = data.grad
            del output, data


def recompute(net: Block, name: str, picture_shape: tuple[int, ...]) -> RecomputedNet:
    """Return the compiled net computed in segments; UsageError, which names the model `name`, if it cannot be cut."""
    if not getattr(net, "_active", False):
        raise UsageError(f"--remat: {name} is no graph, so it cannot be cut; leave it out")
    found = cut(net, "--remat", name, picture_shape)
    net.hybridize(active=False)
    return RecomputedNet(net, found)


def cut(net: Block, flag: str, name: str, picture_shape: tuple[int, ...], has_cuts: bool = True) -> Cut:
    """Return the segments of a net whose graph has been made; UsageError, which names the `flag`, if it has none.

    A net that `has_cuts` not is one segment.
    """
    graph, shapes, data, queueing = whole_graph(net, flag, name, picture_shape, "can be cut")
    graphs = segments.split(graph, shapes, data) if has_cuts else [segments.whole(graph, data)]
    if has_cuts and len(graphs) == 1:
        raise UsageError(f"{flag}: no cut through {name} would save memory; leave it out")
    # glibc keeps freed blocks below a threshold that grows up to 32 MB, which would be most of what is saved.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, HALF_A_MEGABYTE)
    num_bytes = segments.lowest_peak(graph, shapes, data)
    return Cut(flag, graphs, data, net._cached_graph, queueing, num_bytes)


def whole_graph(net: Block, flag: str, name: str, shape: tuple[int, ...], needs: str) -> WholeGraph:
    """Return the graph of a net that has been made, for an input of this shape.

    What it computes, and in which types, was chosen for the whole net; its parts compute the same. UsageError, which
    names the `flag` and what it `needs`, for a net of several inputs.
    """
    inputs, output = net._cached_graph
    if len(inputs) > 1:
        raise UsageError(
            f"{flag}: {name} takes {len(inputs)} arrays, and {needs} if it takes one; leave it out"
        )
    (data,) = inputs
    graph, shapes = graph_rewrites.nodes_and_shapes(output, {data.name: shape})
    queueing = {key: value for key, value in net._flags if key.endswith("_bulk_size")}
    return WholeGraph(graph, shapes, data.name, queueing)


def finish_backward(net: Block, context: Device) -> None:
    """Complete a backward pass on `context`; does nothing for a net that is not recomputed."""
    if isinstance(net, RecomputedNet):
        net.finish_backward(context)


def unwrapped(net: Block) -> Block:
    """Return the net itself, whether or not it is computed in segments."""
    return net.net if isinstance(net, SegmentedNet) else net


def graph_of(net: Block) -> tuple[Sequence[Symbol], Symbol] | None:
    """Return the inputs and the output of a compiled net's whole graph; None of a net that is no graph."""
    found = net.whole_graph if isinstance(net, SegmentedNet) else getattr(net, "_cached_graph", None)
    return found or None


def _segment(graph: Graph, parameters: ParameterDict, data: str, queueing: Mapping[str, int]) -> Block:
    """Return the segment as a block of what is handed on and, where it needs that, of the net's input `data`."""
    output = mx.sym.load_json(json.dumps(graph))
    inputs = [mx.sym.var(name) for name in (segments.HANDED_ON, data) if name in names(graph)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MXNet's, that it does not know the input's type before there is one
        segment = mx.gluon.SymbolBlock(output, inputs, parameters)
    # A static graph would hold its memory between the passes.
    segment.hybridize(**queueing)
    return segment


def names(graph: Graph) -> set[str]:
    """Return the names of a graph's nodes."""
    return {node["name"] for node in graph["nodes"]}


def _first_trained(graphs: Sequence[Graph], parameters: ParameterDict) -> int:
    """Return the position of the first segment that has a parameter which trains."""
    trained = {name for name, parameter in parameters.items() if parameter.grad_req != "null"}
    return next(place for place, graph in enumerate(graphs) if trained & names(graph))


def _is_random(graph: Graph) -> bool:
    """Return whether a segment draws random numbers."""
    return any(RANDOM.search(node["op"] + str(node.get("attrs"))) for node in graph["nodes"])


def draw_seed(context: Device) -> int:
    """Draw a seed from the stream that the step has seeded, as MXNet cannot return to a position in a stream."""
    return int(mx.nd.random.randint(0, LARGEST_SEED, shape=(1,), ctx=context).asscalar())


def set_seed(seed: int | None, context: Device) -> None:
    """Continue with the random numbers of this seed, if there is one."""
    if seed is not None:
        mx.random.seed(seed, ctx=context)
