"""The options of a table, as plain data that travels."""

from __future__ import annotations

import dataclasses
import json
from typing import Sequence

from mxtrain.core.errors import UsageError, nearest

# What a row's optimizer remembers: how many rows of numbers as wide as it, and how many single ones.
STATES = {"sgd": (0, 0), "momentum": (1, 0), "adagrad": (1, 0), "adagrad_row": (0, 1), "adam": (2, 2)}
OPTIMIZERS = tuple(STATES)
MOST_WIDTH = 4096
MOST_NAME = 64  # bytes, with which names of files are


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """A table: its rows, how they begin and how they move."""

    name: str
    width: int  # numbers of a row
    seed: int = 0  # of first values; the run's, where a run trains it
    scale: float = 0.01  # first values are uniform from -scale to scale
    optimizer: str = "adagrad_row"
    rate_factor: float = 1.0  # of the run's learning rate
    momentum: float = 0.9  # of momentum
    beta1: float = 0.9  # of adam
    beta2: float = 0.999
    epsilon: float = 1e-8  # of adagrad, adagrad_row and adam
    decay: float = 0.0  # of the weights of rows that move, times the rate
    admit_after: int = 1  # a row comes to life with this step that uses it
    expire_after: int = 0  # steps without use, after which a row is forgotten; 0: never
    max_rows: int = 0  # of which more end the run; 0: no limit

    def __post_init__(self) -> None:
        if self.optimizer not in STATES:
            raise UsageError(
                f"table {self.name}: optimizer {self.optimizer} is unknown{nearest(self.optimizer, OPTIMIZERS)} "
                f"({', '.join(OPTIMIZERS)})"
            )
        if not 1 <= len(self.name.encode()) <= MOST_NAME:
            raise UsageError(f"a table called {self.name!r}: give it a name of 1 to {MOST_NAME} bytes")
        for name, value, fits, what in (
            ("width", self.width, 1 <= self.width <= MOST_WIDTH, f"from 1 to {MOST_WIDTH}"),
            ("scale", self.scale, 0 <= self.scale < float("inf"), "0 or more"),
            ("rate_factor", self.rate_factor, 0 <= self.rate_factor < float("inf"), "0 or more"),
            ("momentum", self.momentum, 0 <= self.momentum < 1, "from 0 to below 1"),
            ("beta1", self.beta1, 0 <= self.beta1 < 1, "from 0 to below 1"),
            ("beta2", self.beta2, 0 <= self.beta2 < 1, "from 0 to below 1"),
            ("epsilon", self.epsilon, 0 < self.epsilon < float("inf"), "above 0"),
            ("decay", self.decay, 0 <= self.decay < float("inf"), "0 or more"),
            ("admit_after", self.admit_after, 1 <= self.admit_after < 1 << 31, "1 or more"),
            ("expire_after", self.expire_after, 0 <= self.expire_after < 1 << 31, "0 or more"),
            ("max_rows", self.max_rows, 0 <= self.max_rows < 1 << 40, "0 or more"),
        ):
            if not fits:
                raise UsageError(f"table {self.name}: {name} {value}; has to be {what}")

    @property
    def state_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of what the optimizer remembers of a row: as wide as it is, or a number each."""
        wide, single = STATES[self.optimizer]
        return [(self.width,)] * wide + [()] * single


def to_json(tables: Sequence[TableOptions]) -> bytes:
    return json.dumps([dataclasses.asdict(each) for each in tables]).encode()


def from_json(text: bytes) -> list[TableOptions]:
    return [TableOptions(**each) for each in json.loads(text)]
