"""Nets of named arrays: `mlp`, `conv1d` and `lstm`, with numbers as in `mlp:hidden=128/64`.

A net is made from `inputs`, the shapes of the arrays of a sample by their names in the order in which it is called with
them, and from the number of its outputs. An array that varies in length is followed by its mask, of the
same name with _mask behind: 1 for each step that a sample has, 0 behind its end. What is behind changes no answer.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from mxtrain.models.contract import Shape
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray

nn = mx.gluon.nn
MASK = "_mask"

Inputs = Mapping[str, Shape]


def mlp(inputs: Inputs, outputs: int, **numbers: Any) -> Block:
    """Return layers of neurons over all arrays side by side."""
    return Mlp(outputs, **numbers)


def conv1d(inputs: Inputs, outputs: int, dropout: float, **numbers: Any) -> Block:
    """Return convolutions over the steps of each series."""
    return OverSeries(
        inputs, outputs, lambda number: Convolutions(number, dropout=dropout, **numbers), dropout
    )


def lstm(inputs: Inputs, outputs: int, dropout: float, **numbers: Any) -> Block:
    """Return LSTM layers over the steps of each series."""
    return OverSeries(
        inputs, outputs, lambda number: Recurrences(number, dropout=dropout, **numbers), dropout
    )


class Mlp(mx.gluon.HybridBlock):
    """Layers of neurons over all numbers of all arrays side by side."""

    def __init__(self, outputs: int, hidden: tuple[int, ...], dropout: float, norm: int):
        super().__init__(prefix="mlp_")
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            for width in hidden:
                self.body.add(nn.Dense(width), *_after_layer(norm, dropout))
            self.body.add(nn.Dense(outputs))

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:
        return self.body(_joined(F, [F.flatten(each) for each in arrays]))


class OverSeries(mx.gluon.HybridBlock):
    """A branch over the steps of each series; what they have found, and all vectors, go into one layer.

    Where no array is a series the first one is taken for one of a single column.
    """

    def __init__(self, inputs: Inputs, outputs: int, branch: Callable[[int], Block], dropout: float):
        super().__init__(prefix="series_")
        arrays = [name for name in inputs if not _is_mask(name, inputs)]
        series = [name for name in arrays if len(inputs[name]) > 1 or name + MASK in inputs]
        self._plan = [(name in (series or arrays[:1]), name + MASK in inputs) for name in arrays]
        self._positions = [list(inputs).index(name) for name in arrays]
        with self.name_scope():
            self.branches = nn.HybridSequential(prefix="")
            for number in range(sum(is_series for is_series, _ in self._plan)):
                self.branches.add(branch(number))
            self.head = nn.HybridSequential(prefix="")
            self.head.add(*([nn.Dropout(dropout)] if dropout else []), nn.Dense(outputs))

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:
        branches, found = iter(self.branches), []
        for place, (is_series, varies) in zip(self._positions, self._plan):
            array = arrays[place]
            if is_series:
                found.append(next(branches)(array, *arrays[place + 1 : place + 1 + varies]))
            else:
                found.append(F.flatten(array))
        return self.head(_joined(F, found))


class Convolutions(mx.gluon.HybridBlock):
    """Convolutions that each see twice as far as the one before; the mean and the most of what they find."""

    def __init__(self, number: int, channels: tuple[int, ...], kernel: int, dropout: float, norm: int):
        super().__init__(prefix=f"convolutions{number or ''}_")
        with self.name_scope():
            self.layers = nn.HybridSequential(prefix="")
            for place, width in enumerate(channels):
                far = 2**place
                layer = nn.HybridSequential(prefix=f"layer{place}_")
                with layer.name_scope():
                    layer.add(nn.Conv1D(width, kernel, padding=far * (kernel // 2), dilation=far))
                    layer.add(*_after_layer(norm, dropout, axis=1))
                self.layers.add(layer)

    def hybrid_forward(self, F: Any, steps: Any, mask: Any = None) -> Any:
        steps = F.transpose(_columns(F, steps), axes=(0, 2, 1))
        if mask is None:
            for layer in self.layers:
                steps = layer(steps)
            return F.concat(F.mean(steps, axis=2), F.max(steps, axis=2), dim=1)
        mask = F.expand_dims(mask, axis=1)
        for layer in self.layers:
            steps = F.broadcast_mul(layer(F.broadcast_mul(steps, mask)), mask)
        mean = F.broadcast_div(F.sum(steps, axis=2), F.sum(mask, axis=2))
        return F.concat(
            mean, F.max(steps, axis=2), dim=1
        )  # no number is below 0, as those behind the end are


class Recurrences(mx.gluon.HybridBlock):
    """LSTM layers over the steps, and what the last one has found at a sample's last step."""

    def __init__(self, number: int, hidden: int, layers: int, dropout: float, norm: int):
        super().__init__(prefix=f"recurrences{number or ''}_")
        with self.name_scope():
            self.lstm = mx.gluon.rnn.LSTM(hidden, layers, dropout=dropout if layers > 1 else 0.0)
            self.norm = nn.HybridSequential(prefix="")
            self.norm.add(*([nn.LayerNorm()] if norm else []))

    def hybrid_forward(self, F: Any, steps: Any, mask: Any = None) -> Any:
        found = self.lstm(F.transpose(_columns(F, steps), axes=(1, 0, 2)))
        if mask is None:
            return self.norm(F.SequenceLast(found))
        return self.norm(F.SequenceLast(found, F.sum(mask, axis=1), use_sequence_length=True))


def _after_layer(norm: int, dropout: float, axis: int = -1) -> list[Block]:
    normed = [nn.LayerNorm(axis=axis)] if norm else []
    return [*normed, nn.Activation("relu"), *([nn.Dropout(dropout)] if dropout else [])]


def _is_mask(name: str, inputs: Inputs) -> bool:
    return name.endswith(MASK) and name[: -len(MASK)] in inputs


def _columns(F: Any, steps: Any) -> Any:
    """Return steps as (samples, steps, columns), whatever is inside a step."""
    return F.reshape(steps, shape=(0, 0, -1))


def _joined(F: Any, rows: list[NDArray]) -> Any:
    return F.concat(*rows, dim=1) if len(rows) > 1 else rows[0]
