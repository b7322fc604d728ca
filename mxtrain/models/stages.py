"""A net whose layers lie on several devices (`--stages`): what one computes is copied to the next.

Owns the parts of a net, which are as small as can be put on a device alone, and the way of an array through them. Which
device has which part is decided elsewhere (`train/staged/cuts.py`). MXNet's autograd goes back the same way, and its
engine computes on each device as soon as what it needs is there.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Iterator, NamedTuple, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.models import chosen_rewrites, remat, segments
from mxtrain.models.remat import Cut, SegmentedNet
from mxtrain.models.rewrites.graph_rewrites import Graph, Shapes
from mxtrain.models.segment_operators import SegmentOperator, SegmentOperators, anonymous
from mxtrain.runtime.types import Block, Device, NDArray, Parameter

logger = logging.getLogger(__name__)

MOST_PARTS = 48
# A copy on another device is in plain order, where oneDNN's own may have been. These compute the same bits of both;
# norms and poolings take other kernels.
OF_ANY_ORDER = {
    "Convolution",
    "FullyConnected",
    "Flatten",
    "elemwise_add",
    "broadcast_add",
    "LayerNorm",
    "RNN",
}
# What these compute belongs to the layer before them: MXNet computes both together, or its graph is rewritten to.
JOINED = {"Activation", "LeakyReLU", "BatchNorm", "relu", "sigmoid", "clip", "Dropout", "Cast", "amp_cast"}
FEW_ENDS = 4


class Part(NamedTuple):
    """A part of a net that is computed on one device."""

    operator: SegmentOperator
    parameters: dict[str, Parameter]  # by their names in the operator's graph


class StagedNet(SegmentedNet):
    """A net whose parts lie on the devices that `place` tells. Its parameters have the same names as the net's."""

    def __init__(self, net: Block, cut: Cut, is_exact: bool = True):
        super().__init__(net, cut)
        self.data, self._is_exact = cut.data, is_exact
        self._operators = SegmentOperators(cut.queueing, chosen_rewrites.by_purpose())
        known = net.collect_params()
        self.parts = [self._part(graph, known) for graph in cut.graphs]
        self.devices: list[Device] = []  # of each part
        self.lent: dict[
            str, NDArray
        ] = {}  # arrays that are computed with in the place of parameters, by name
        self._is_plain = False

    def _part(self, graph: Graph, known: Any) -> Part:
        inputs = (segments.HANDED_ON, self.data)
        nameless = anonymous(graph, inputs)
        parameters = {own: known[name] for own, name in nameless.weights.items()}
        return Part(self._operators.of(nameless, inputs), parameters)

    def place(self, devices: Sequence[Device]) -> None:
        """Put each part on its device."""
        self.devices = list(devices)
        for part, device in zip(self.parts, devices):
            for parameter in part.parameters.values():
                if parameter.list_ctx() != [device]:
                    parameter.reset_ctx(device)

    def hybridize(self, active: bool = True, **_: Any) -> None:
        """Compute in parts if active; otherwise by the plain net on the last device, whose layers can be observed."""
        self._is_plain = not active
        self.net.hybridize(active=False)
        if self._is_plain:
            self.place([self.devices[-1]] * len(self.parts))

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """A block in which the net answers as a whole on one CPU, by copies of what others have; on GPUs in parts."""
        on_cpus = all(each.device_type == "cpu" for each in self.devices)
        with super().standing_still() if on_cpus else contextlib.nullcontext():
            yield

    def in_segments(self, data: NDArray) -> NDArray:
        """Compute the net; the answer is on the last device."""
        if self._is_plain:
            return self.net(data)
        passed = data
        for number, device in enumerate(self.devices):
            # Where bits depend on the order of arrays all parts begin with a copy, whichever device they are on.
            moved = passed.as_in_context(device) if self._is_exact else passed.copyto(device)
            passed = self.computed(number, moved, data)
        return passed

    def computed(self, number: int, passed: NDArray, data: NDArray) -> NDArray:
        """Return what a part makes of what the one before it has `passed`; `data` is the net's input."""
        part, device = self.parts[number], passed.context
        named = part.parameters.items()
        arrays = {
            own: self.lent[each.name] if each.name in self.lent else each.data(device) for own, each in named
        }
        if self.takes_data[number]:
            arrays[self.data] = data.as_in_context(device)
        return part.operator({**arrays, segments.HANDED_ON: passed})


def in_parts(net: Block, flag: str, name: str, shape: tuple[int, ...]) -> StagedNet:
    """Return the compiled net in parts, for inputs of this shape; UsageError if it has too few.

    Args:
        net: The net, compiled.
        flag: The flag that asks for parts, for messages.
        name: The net's name, for messages.
        shape: The shape of a micro-batch.

    Returns:
        The net, of which no part has a device yet.
    """
    if not getattr(net, "_active", False):
        raise UsageError(f"{flag}: {name} is no graph, so it has no parts; leave it out")
    graph, shapes, data, queueing = remat.whole_graph(net, flag, name, shape, "has parts")
    sparse = [each.name for each in net.collect_params().values() if each._grad_stype != "default"]
    if sparse:
        raise UsageError(f"{flag}: {sparse[0]} of {name} is a table of rows; leave it out")
    ends, others = (_ends(graph, shapes, data, is_exact) for is_exact in (True, False))
    is_exact = len(ends) >= FEW_ENDS or len(others) < 2 * len(ends)
    if not is_exact:
        ends = others
        logger.info(
            "%s: %s has parts that begin with norms, so its last bits are not those of one device", flag, name
        )
    starts = [segments.place_of(graph, data), *ends]
    heads = [*([each, 0, 0] for each in ends), graph["heads"][0]]
    graphs = [segments.between(graph, start, head) for start, head in zip(starts, heads)]
    found = Cut(flag, graphs, data, net._cached_graph, queueing)
    net.hybridize(active=False)
    return StagedNet(net, found, is_exact)


def _ends(graph: Graph, shapes: Shapes, data: str, is_exact: bool) -> list[int]:
    """Return the nodes at which parts end that follow each other, none much smaller than a 48th of the net.

    They are `is_exact` if what comes after an end computes the same bits of a copy of it.
    """
    first = segments.place_of(graph, data)
    passages = segments.passages_of(graph, shapes, first)
    computed, _ = segments.sizes(graph, shapes, first, passages)
    followers = _followers(graph)
    ends, inside = [], 0
    for passage, num_bytes in zip(passages, computed):
        inside += num_bytes
        after = followers.get(passage, {""})
        if inside * MOST_PARTS >= sum(computed) and (
            after <= OF_ANY_ORDER if is_exact else not after <= JOINED
        ):
            ends.append(passage)
            inside = 0
    return ends


def _followers(graph: Graph) -> dict[int, set[str]]:
    """Return the operators that take what each node computes."""
    found: dict[int, set[str]] = {}
    for node in graph["nodes"]:
        for source, *_ in node["inputs"]:
            found.setdefault(source, set()).add(node["op"])
    return found
