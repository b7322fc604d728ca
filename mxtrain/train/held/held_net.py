"""A net that holds none of its weights: each segment is given its own when it is computed.

Owns what a segment computes with: its operator, the weights that it is lent, and the running statistics, which are few
and stay in the net. Whoever lends the weights is `SegmentWeights`'; the passes of training are `train/held/`'s.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from mxtrain.kvstore.owners.owned_head import OwnedHead
from mxtrain.models import chosen_rewrites, segments
from mxtrain.models.heads.class_chunks import ChunkedHead
from mxtrain.models.parameters import running_statistics
from mxtrain.models.parameters.weights import layers
from mxtrain.models.remat import Cut, SegmentedNet
from mxtrain.models.segment_operators import AnonymousGraph, SegmentOperator, SegmentOperators, anonymous
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray, NDArrays, Parameter
from mxtrain.train.held.segment_weights import SegmentWeights


class Segment(NamedTuple):
    """A part of a net, computed at a time."""

    operator: SegmentOperator
    names: AnonymousGraph  # of its weights
    lent: Sequence[Parameter]  # whose weights it is given
    running: Sequence[Parameter]  # statistics that training moves, in the net


class HeldNet(SegmentedNet):
    """A net computed in segments with weights that are lent to it."""

    def __init__(self, net: Block, cut: Cut):
        super().__init__(net, cut)
        self.data = cut.data
        self._operators = SegmentOperators(cut.queueing, chosen_rewrites.by_purpose())
        moving = {each.name: each for each in running_statistics.parameters(net)}
        known = net.collect_params()
        self.segments = [self._segment(graph, known, moving) for graph in cut.graphs]
        self.weights: SegmentWeights | None = None  # set once the owners of the weights are known
        self.head = next(layers(net, ChunkedHead), None)

    def _segment(self, graph: Any, known: Any, moving: dict[str, Parameter]) -> Segment:
        inputs = (segments.HANDED_ON, self.data)
        found = anonymous(graph, inputs)
        names = list(found.weights.values())
        return Segment(
            self._operators.of(found, inputs),
            found,
            [known[name] for name in names if name not in moving],
            [moving[name] for name in names if name in moving],
        )

    @property
    def held(self) -> list[Parameter]:
        """The parameters that are held here at all times."""
        return running_statistics.parameters(self.net)

    def hybridize(self, active: bool = True, **_: Any) -> None:
        """Do nothing: there are no weights here that a plain net could compute with."""

    def lender(self) -> SegmentWeights:
        """Return who lends the weights."""
        if self.weights is None:
            raise RuntimeError("a net that holds no weights is computed once it has owners of them")
        return self.weights

    def owned_head(self) -> OwnedHead:
        """Return the head in chunks, of a net that has one, as its owners lend it."""
        assert self.head is not None and isinstance(self.head.lender, OwnedHead), "set beside `weights`"
        return self.head.lender

    def forward(self, data: NDArray) -> NDArray:
        """Compute the net, outside of training."""
        passed = data
        for place, weights in self.lender().through([(each,) for each in range(len(self.segments))]):
            passed = self.computed(place[0], weights, passed, data)
            mx.nd.waitall()  # before the weights go
        return passed

    def computed(self, place: int, weights: NDArrays, passed: NDArray, data: NDArray) -> NDArray:
        """Return what a segment makes of what the one before it has `passed`; `data` is the net's input.

        `weights` are those that it is lent, by the names of parameters.
        """
        segment = self.segments[place]
        held = {each.name: each.data() for each in segment.running}
        arrays = {
            own: held[name] if name in held else weights[name] for own, name in segment.names.weights.items()
        }
        return segment.operator({**arrays, segments.HANDED_ON: passed, self.data: data})
