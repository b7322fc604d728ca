"""A net that holds none of its weights: each segment is given its own when it is computed.

Owns what a segment computes with: its operator, the weights that it is lent, and the running statistics, which are few
and stay in the net. Whoever lends the weights is `SegmentWeights`'; the passes of training are `train/held/`'s.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator, NamedTuple, Sequence

from mxtrain.kvstore.owners.owned_head import OwnedHead
from mxtrain.models import answers, chosen_rewrites, fallbacks, segments
from mxtrain.models.compiled_graphs import JUDGING, IfComputable, purpose_of_now
from mxtrain.models.heads.class_chunks import ChunkedHead
from mxtrain.models.parameters import running_statistics
from mxtrain.models.parameters.weights import layers
from mxtrain.models.remat import Cut, SegmentedNet
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.segment_operators import AnonymousGraph, SegmentOperator, SegmentOperators, anonymous
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray, NDArrays, Parameter
from mxtrain.train.held.segment_weights import SegmentWeights
from mxtrain.train.net.net_bytes import num_bytes


class Segment(NamedTuple):
    """A part of a net, computed at a time."""

    operator: SegmentOperator
    names: AnonymousGraph  # of its weights
    lent: Sequence[Parameter]  # whose weights it is given
    running: Sequence[Parameter]  # statistics that training moves, in the net


class LentSegments(NamedTuple):
    """Segments, and who lends their weights."""

    segments: Sequence[Segment]
    weights: SegmentWeights


class HeldNet(SegmentedNet):
    """A net computed in segments with weights that are lent to it."""

    def __init__(self, net: Block, cut: Cut):
        super().__init__(net, cut)
        self.data = cut.data
        operators = SegmentOperators(cut.queueing, chosen_rewrites.by_purpose())
        self.segments = [self._segment(graph, operators) for graph in cut.graphs]
        self.weights: SegmentWeights | None = None  # set once the owners of the weights are known
        self.head = next(layers(net, ChunkedHead), None)
        self._lent_for_answers: LentSegments | None = None  # while weights stand still
        self._if_computable = IfComputable()

    def _segment(self, graph: Any, operators: SegmentOperators) -> Segment:
        inputs = (segments.HANDED_ON, self.data)
        found = anonymous(graph, inputs)
        known, names = self.net.collect_params(), list(found.weights.values())
        moving = {each.name: each for each in self.held}
        return Segment(
            operators.of(found, inputs),
            found,
            [known[name] for name in names if name not in moving],
            [moving[name] for name in names if name in moving],
        )

    @functools.cached_property
    def _segments_of_answers(self) -> Sequence[Segment]:
        """The segments of the graph with joined layers; none where the net has no such graph.

        It is cut where nothing is joined. Two segments are here at a time, so none has more weights than the second
        largest of training, if that can be.
        """
        symbols, made = answers.symbols_of(self.net), graph_rewrites.graph_as_made(self.net)
        if symbols is None or made is None:
            return ()
        sizes = {each.name: num_bytes(each) for each in self.net.collect_params().values()}
        lent = sorted(sum(sizes[each.name] for each in segment.lent) for segment in self.segments)
        operators = SegmentOperators(self._queueing, {JUDGING: ()})
        try:
            graph, shapes = graph_rewrites.nodes_and_shapes(symbols.whole, made.shapes)
            graphs = segments.split_by_weights(graph, shapes, self.data, sizes, lent[-2:][0])
            return [self._segment(each, operators) for each in graphs]
        except Exception as error:
            what = "the graph that the net answers by cannot be cut"
            fallbacks.report(what, error, fallbacks.ANSWERS_AS_IT_IS)
            return ()

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

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """A block in which the net answers as `answers.standing_still` says, still a segment at a time."""
        if found := self._segments_of_answers:
            self._lent_for_answers = LentSegments(found, self.lender().of([each.lent for each in found]))
            self._if_computable = IfComputable()
        try:
            yield
        finally:
            self._lent_for_answers = None

    def forward(self, data: NDArray) -> NDArray:
        """Compute the net, outside of training."""
        lent, found = self._lent_for_answers, None
        if lent is not None and purpose_of_now() == JUDGING:
            found = self._if_computable(self._through, lent, data)
        return self._through(LentSegments(self.segments, self.lender()), data) if found is None else found

    def _through(self, lent: LentSegments, data: NDArray) -> NDArray:
        passed = data
        for (place,), weights in lent.weights.through([(each,) for each in range(len(lent.segments))]):
            passed = _computed(lent.segments[place], weights, passed, self.data, data)
            mx.nd.waitall()  # before the weights go
        return passed

    def computed(self, place: int, weights: NDArrays, passed: NDArray, data: NDArray) -> NDArray:
        """Return what a segment makes of what the one before it has `passed`; `data` is the net's input.

        `weights` are those that it is lent, by the names of parameters.
        """
        return _computed(self.segments[place], weights, passed, self.data, data)


def _computed(segment: Segment, weights: NDArrays, passed: NDArray, name: str, data: NDArray) -> NDArray:
    held = {each.name: each.data() for each in segment.running}
    arrays = {
        own: held[each] if each in held else weights[each] for own, each in segment.names.weights.items()
    }
    return segment.operator({**arrays, segments.HANDED_ON: passed, name: data})
