"""Nets of ids: `wide_deep`, `deepfm` and `dlrm`, with numbers as in `deepfm:width=16,hidden=256/128`.

A net is made from `inputs`, the shapes of the arrays of a sample by their names in the order in which it is called with
them, and from the number of its outputs. `ids` are looked up in one table, whose rows have a weight for each output and
a vector; so are lists, whose rows are averaged, and which are followed by their lengths, of the same name with _lengths
behind. `numbers` are standardised. What is looked up are fields, of which nets see which go together.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from mxtrain.models.contract import Shape
from mxtrain.models.nets import fields
from mxtrain.models.nets.fields import Fields
from mxtrain.models.nets.table import MEAN, Table
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray

nn = mx.gluon.nn
IDS, NUMBERS, LENGTHS = "ids", "numbers", "_lengths"
ROWS = "rows"  # that a head takes

Inputs = Mapping[str, Shape]


def wide_deep(inputs: Inputs, outputs: int, hidden: tuple[int, ...], dropout: float, **rows: Any) -> Block:
    """Return a sum of weights, beside layers of neurons over all vectors and numbers (Cheng et al., 2016)."""
    sizes = _sizes(inputs, outputs, rows["width"])
    return OverRows(inputs, sizes, WideAndDeep(sizes, hidden, dropout), **rows)


def deepfm(inputs: Inputs, outputs: int, hidden: tuple[int, ...], dropout: float, **rows: Any) -> Block:
    """Return `wide_deep` with products of all pairs of fields beside it (Guo et al., 2017)."""
    sizes = _sizes(inputs, outputs, rows["width"])
    return OverRows(inputs, sizes, DeepFm(sizes, hidden, dropout), **rows)


def dlrm(
    inputs: Inputs,
    outputs: int,
    bottom: tuple[int, ...],
    hidden: tuple[int, ...],
    dropout: float,
    **rows: Any,
) -> Block:
    """Return layers over the products of all pairs of fields, of which the numbers are one (Naumov et al., 2019)."""
    sizes = _sizes(inputs, outputs, rows["width"])
    return OverRows(inputs, sizes, Dlrm(sizes, bottom, hidden, dropout), **rows)


class OverRows(mx.gluon.Block):
    """A head, compiled, over what is looked up, (samples, fields, outputs + width), and numbers."""

    def __init__(self, inputs: Inputs, sizes: Sizes, head: Head, width: int, **options: Any):
        super().__init__(prefix="recommender_")
        self.names, self.shapes = list(inputs), dict(inputs)
        with self.name_scope():
            self.rows = Table(ROWS, sizes.outputs + width, field=IDS if IDS in inputs else "", **options)
            self.head = head
        head.hybridize(static_alloc=True, static_shape=True)

    def forward(self, *arrays: NDArray) -> NDArray:
        """Return the outputs of samples, (samples, outputs)."""
        named = dict(zip(self.names, arrays))
        return self.head(*self.head.taken(self._fields(named)), *_numbers(named).values())

    def head_inputs(self, *arrays: NDArray) -> dict[str, NDArray]:
        """Return what `head_of_rows` takes: rows, and numbers, if there are some."""
        named = dict(zip(self.names, arrays))
        return {ROWS: self._rows(named), **_numbers(named)}

    def head_of_rows(self) -> HeadOfRows:
        """Return the head as a graph from rows, those of lists averaged, and numbers, if there are some."""
        return HeadOfRows(self.head)

    def _fields(self, named: Mapping[str, NDArray]) -> Fields:
        sizes = self.head.sizes
        if IDS in named and not self.lists and named[IDS].context.device_type == "cpu":
            return self.rows.fields(named[IDS], sizes.outputs)
        return sizes.fields_of(mx.nd, self._rows(named))

    def _rows(self, named: Mapping[str, NDArray]) -> NDArray:
        """Return what is looked up, (samples, fields, outputs + width)."""
        fields = [self.rows(named[IDS])] if IDS in named else []
        fields += [
            self.rows.pooled(named[name], named[name + LENGTHS], MEAN).expand_dims(1) for name in self.lists
        ]
        return mx.nd.concat(*fields, dim=1) if len(fields) > 1 else fields[0]

    @property
    def lists(self) -> list[str]:
        """The names of the arrays that are lists of ids."""
        return [name for name in self.names if name + LENGTHS in self.names]

    @property
    def head_shapes(self) -> dict[str, Shape]:
        """The shapes of what `head_of_rows` takes of a sample."""
        sizes = self.head.sizes
        rows = {ROWS: (sizes.num_fields, sizes.outputs + sizes.width)}
        return {**rows, **({NUMBERS: (sizes.num_numbers,)} if sizes.num_numbers else {})}


class Sizes(NamedTuple):
    """The sizes of what goes into a head, and of what it answers."""

    num_fields: int
    num_numbers: int
    width: int
    outputs: int

    def fields_of(self, F: Any, rows: Any) -> Fields:
        """Return the fields of rows, by MXNet's operators."""
        return fields.of_rows(F, rows, self.num_fields, self.outputs, self.width)


class Head(mx.gluon.HybridBlock):
    """The layers behind what is looked up: from what it takes of fields, and numbers, if there are some."""

    takes: tuple[str, ...] = ("sums", "vectors")

    def __init__(self, sizes: Sizes, prefix: str):
        super().__init__(prefix=prefix)
        self.sizes = sizes

    def taken(self, of_samples: Fields) -> list[Any]:
        """Return what it takes of samples' fields."""
        return [getattr(of_samples, name) for name in self.takes]

    def split(self, F: Any, sums: Any) -> tuple[Any, Any]:
        """Return the sums of weights, (samples, outputs), and those of vectors, (samples, width)."""
        outputs = self.sizes.outputs
        weights = F.slice_axis(sums, axis=1, begin=0, end=outputs)
        return weights, F.slice_axis(sums, axis=1, begin=outputs, end=None)


class HeadOfRows(mx.gluon.HybridBlock):
    """A head that takes the rows themselves, as the graphs of exported nets do."""

    def __init__(self, head: Head):
        super().__init__(prefix="")
        self.head = head

    def hybrid_forward(self, F: Any, rows: Any, *numbers: Any) -> Any:
        return self.head(*self.head.taken(self.head.sizes.fields_of(F, rows)), *numbers)


class WideAndDeep(Head):
    """The sum of weights, those of the numbers among them, and of what layers over vectors and numbers find."""

    def __init__(self, sizes: Sizes, hidden: tuple[int, ...], dropout: float):
        super().__init__(sizes, prefix="deep_")
        with self.name_scope():
            if sizes.num_numbers:
                self.wide = nn.Dense(sizes.outputs, prefix="wide_")
            self.deep = _layers(hidden, dropout, sizes.outputs)

    def hybrid_forward(self, F: Any, sums: Any, vectors: Any, numbers: Any = None) -> Any:
        weights, _ = self.split(F, sums)
        return self.wide_and_deep(F, weights, F.flatten(vectors), numbers)

    def wide_and_deep(self, F: Any, weights: Any, flat: Any, numbers: Any) -> Any:
        """Return the outputs, from the summed weights and each sample's vectors, one behind the other."""
        if numbers is None:
            return weights + self.deep(flat)
        return weights + self.wide(numbers) + self.deep(F.concat(flat, numbers, dim=1))


class DeepFm(WideAndDeep):
    """The same, and the sum over all pairs of fields of their vectors' products; a number has one, times itself.

    It is half of what the square of the sum of all vectors has more than the sum of their squares.
    """

    takes = ("sums", "vectors", "squares")

    def __init__(self, sizes: Sizes, hidden: tuple[int, ...], dropout: float):
        super().__init__(sizes, hidden, dropout)
        if sizes.num_numbers:
            with self.name_scope():
                shape = (1, sizes.num_numbers, sizes.width)
                self.of_numbers = self.params.get("of_numbers", shape=shape, init=mx.init.Uniform(0.01))

    def hybrid_forward(  # type: ignore[override]  # MXNet calls it with what this head takes
        self, F: Any, sums: Any, vectors: Any, squares: Any, numbers: Any = None, of_numbers: Any = None
    ) -> Any:
        weights, total = self.split(F, sums)
        if numbers is not None:
            of_numbers = F.reshape(of_numbers, shape=(-3, -2))  # without the axis of samples
            total = total + F.dot(numbers, of_numbers)
            of_number = self._dot_ones(F, F.square(of_numbers), self.sizes.width)
            squares = squares + F.dot(F.square(numbers), of_number)
        pairs = self._dot_ones(F, F.square(total), self.sizes.width) - squares
        return F.broadcast_add(self.wide_and_deep(F, weights, F.flatten(vectors), numbers), 0.5 * pairs)

    def _dot_ones(self, F: Any, matrix: Any, width: int) -> Any:
        """Return the sum of each row of a matrix of this width, as a column."""
        return F.dot(matrix, F.ones(shape=(width, 1)))


class Dlrm(Head):
    """Layers over products of all pairs of vectors, one of which layers have made of the numbers.

    The rows' weights are added, and a sum of what the layers take: products of small vectors move no ReLU, so some
    seeds would never learn what only a product tells.
    """

    def __init__(self, sizes: Sizes, bottom: tuple[int, ...], hidden: tuple[int, ...], dropout: float):
        super().__init__(sizes, prefix="dlrm_")
        self._count = sizes.num_fields + bool(sizes.num_numbers)
        if self._count == 1:  # no pair: of an input that nothing uses MXNet makes no graph
            self.takes = ("sums",)
        with self.name_scope():
            if sizes.num_numbers:
                self.bottom = _layers(bottom, dropout, sizes.width, prefix="bottom_")
            self.top = _layers(hidden, dropout, sizes.outputs)
            self.direct = nn.Dense(sizes.outputs, use_bias=False, prefix="direct_")

    def hybrid_forward(self, F: Any, sums: Any, vectors: Any = None, numbers: Any = None) -> Any:
        weights, _ = self.split(F, sums)
        found = []
        if numbers is not None:
            of_numbers = self.bottom(numbers)
            vectors = F.concat(F.expand_dims(of_numbers, axis=1), vectors, dim=1)
            found = [of_numbers]
        products = F.batch_dot(vectors, vectors, transpose_b=True)
        for row in range(1, self._count):  # each pair once
            found.append(F.flatten(F.slice(products, begin=(None, row, 0), end=(None, row + 1, row))))
        if not found:
            return weights
        taken = F.concat(*found, dim=1)
        return weights + self.direct(taken) + self.top(taken)


def _layers(hidden: tuple[int, ...], dropout: float, outputs: int, prefix: str = "") -> Block:
    found = nn.HybridSequential(prefix=prefix)
    with found.name_scope():
        for width in hidden:
            found.add(nn.Dense(width, activation="relu"), *([nn.Dropout(dropout)] if dropout else []))
        found.add(nn.Dense(outputs))
    return found


def _numbers(named: Mapping[str, NDArray]) -> dict[str, NDArray]:
    return {NUMBERS: named[NUMBERS]} if NUMBERS in named else {}


def _sizes(inputs: Inputs, outputs: int, width: int) -> Sizes:
    num_lists = sum(name + LENGTHS in inputs for name in inputs)
    num_fields = num_lists + (inputs[IDS][0] if IDS in inputs else 0)
    return Sizes(num_fields, inputs[NUMBERS][0] if NUMBERS in inputs else 0, width, outputs)
