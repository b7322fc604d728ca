"""Nets of ids: `wide_deep`, `deepfm` and `dlrm`, with numbers as in `deepfm:width=16,hidden=256/128`.

A net is made from `inputs`, the shapes of the arrays of a sample by their names in the order in which it is called with
them, and from the number of its outputs. `ids` are looked up in one table, whose rows have a weight for each output and
a vector; so are lists, whose rows are averaged, and which are followed by their lengths, of the same name with _lengths
behind. `numbers` are standardised. What is looked up are fields, of which nets see which go together.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from mxtrain.models.contract import Shape
from mxtrain.models.nets.table import MEAN, Table
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray

nn = mx.gluon.nn
IDS, NUMBERS, LENGTHS = "ids", "numbers", "_lengths"

Inputs = Mapping[str, Shape]


def wide_deep(inputs: Inputs, outputs: int, hidden: tuple[int, ...], dropout: float, **rows: Any) -> Block:
    """Return a sum of weights, beside layers of neurons over all vectors and numbers (Cheng et al., 2016)."""
    return OverRows(inputs, outputs, WideAndDeep(outputs, hidden, dropout, _num_numbers(inputs)), **rows)


def deepfm(inputs: Inputs, outputs: int, hidden: tuple[int, ...], dropout: float, **rows: Any) -> Block:
    """Return `wide_deep` with products of all pairs of fields beside it (Guo et al., 2017)."""
    head = DeepFm(outputs, hidden, dropout, _num_numbers(inputs), rows["width"])
    return OverRows(inputs, outputs, head, **rows)


def dlrm(
    inputs: Inputs,
    outputs: int,
    bottom: tuple[int, ...],
    hidden: tuple[int, ...],
    dropout: float,
    **rows: Any,
) -> Block:
    """Return layers over the products of all pairs of fields, of which the numbers are one (Naumov et al., 2019)."""
    sizes = Sizes(_num_fields(inputs), _num_numbers(inputs), rows["width"])
    return OverRows(inputs, outputs, Dlrm(outputs, bottom, hidden, dropout, sizes), **rows)


class OverRows(mx.gluon.Block):
    """A head over what is looked up: weights (samples, outputs), vectors (samples, fields, width), and numbers."""

    def __init__(self, inputs: Inputs, outputs: int, head: Block, width: int, **options: Any):
        super().__init__(prefix="recommender_")
        self._names, self._outputs = list(inputs), outputs
        with self.name_scope():
            self.rows = Table("rows", outputs + width, field=IDS if IDS in inputs else "", **options)
            self.head = head

    def forward(self, *arrays: NDArray) -> NDArray:
        """Return the outputs of samples, (samples, outputs)."""
        named = dict(zip(self._names, arrays))
        fields = [self.rows(named[IDS])] if IDS in named else []
        fields += [
            self.rows.pooled(named[name], named[name + LENGTHS], MEAN).expand_dims(1)
            for name in self._names
            if name + LENGTHS in named
        ]
        looked_up = mx.nd.concat(*fields, dim=1) if len(fields) > 1 else fields[0]
        weights = looked_up.slice_axis(axis=2, begin=0, end=self._outputs).sum(axis=1)
        vectors = looked_up.slice_axis(axis=2, begin=self._outputs, end=None)
        return self.head(weights, vectors, *([named[NUMBERS]] if NUMBERS in named else []))


class WideAndDeep(mx.gluon.HybridBlock):
    """The sum of weights, those of the numbers among them, and of what layers over vectors and numbers find."""

    def __init__(self, outputs: int, hidden: tuple[int, ...], dropout: float, num_numbers: int):
        super().__init__(prefix="deep_")
        with self.name_scope():
            if num_numbers:
                self.wide = nn.Dense(outputs, prefix="wide_")
            self.deep = _layers(hidden, dropout, outputs)

    def hybrid_forward(self, F: Any, weights: Any, vectors: Any, numbers: Any = None) -> Any:
        if numbers is None:
            return weights + self.deep(F.flatten(vectors))
        return weights + self.wide(numbers) + self.deep(F.concat(F.flatten(vectors), numbers, dim=1))


class DeepFm(WideAndDeep):
    """The same, and the sum over all pairs of fields of their vectors' products; a number has one, times itself."""

    def __init__(self, outputs: int, hidden: tuple[int, ...], dropout: float, num_numbers: int, width: int):
        super().__init__(outputs, hidden, dropout, num_numbers)
        if num_numbers:
            with self.name_scope():
                shape = (1, num_numbers, width)
                self.of_numbers = self.params.get("of_numbers", shape=shape, init=mx.init.Uniform(0.01))

    def hybrid_forward(
        self, F: Any, weights: Any, vectors: Any, numbers: Any = None, of_numbers: Any = None
    ) -> Any:
        found = super().hybrid_forward(F, weights, vectors, numbers)
        if numbers is not None:
            scaled = F.broadcast_mul(F.expand_dims(numbers, axis=2), of_numbers)
            vectors = F.concat(vectors, scaled, dim=1)
        pairs = F.square(F.sum(vectors, axis=1)) - F.sum(F.square(vectors), axis=1)
        return F.broadcast_add(found, 0.5 * F.sum(pairs, axis=1, keepdims=True))


class Sizes(NamedTuple):
    """The sizes of what goes into a net."""

    num_fields: int
    num_numbers: int
    width: int


class Dlrm(mx.gluon.HybridBlock):
    """Layers over products of all pairs of vectors, one of which layers have made of the numbers; weights are added."""

    def __init__(
        self, outputs: int, bottom: tuple[int, ...], hidden: tuple[int, ...], dropout: float, sizes: Sizes
    ):
        super().__init__(prefix="dlrm_")
        self._count = sizes.num_fields + bool(sizes.num_numbers)
        with self.name_scope():
            if sizes.num_numbers:
                self.bottom = _layers(bottom, dropout, sizes.width, prefix="bottom_")
            self.top = _layers(hidden, dropout, outputs)

    def hybrid_forward(self, F: Any, weights: Any, vectors: Any, numbers: Any = None) -> Any:
        found = []
        if numbers is not None:
            of_numbers = self.bottom(numbers)
            vectors = F.concat(F.expand_dims(of_numbers, axis=1), vectors, dim=1)
            found = [of_numbers]
        products = F.batch_dot(vectors, vectors, transpose_b=True)
        for row in range(1, self._count):  # each pair once
            found.append(F.flatten(F.slice(products, begin=(None, row, 0), end=(None, row + 1, row))))
        return weights + self.top(F.concat(*found, dim=1)) if found else weights


def _layers(hidden: tuple[int, ...], dropout: float, outputs: int, prefix: str = "") -> Block:
    found = nn.HybridSequential(prefix=prefix)
    with found.name_scope():
        for width in hidden:
            found.add(nn.Dense(width, activation="relu"), *([nn.Dropout(dropout)] if dropout else []))
        found.add(nn.Dense(outputs))
    return found


def _num_numbers(inputs: Inputs) -> int:
    return inputs[NUMBERS][0] if NUMBERS in inputs else 0


def _num_fields(inputs: Inputs) -> int:
    num_lists = sum(name + LENGTHS in inputs for name in inputs)
    return num_lists + (inputs[IDS][0] if IDS in inputs else 0)
