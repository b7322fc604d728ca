"""What owners have to know of a run's parameters and its optimizer, as plain data that travels."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Sequence

from mxtrain.config import Optim
from mxtrain.runtime.types import Parameter


@dataclasses.dataclass(frozen=True)
class Layout:
    """All parameters of a trainer in order, and the flags of the optimizer."""

    names: list[str]  # by which some optimizers know biases
    shapes: list[list[int]]
    are_trained: list[bool]
    rate_factors: list[float]
    decay_factors: list[float]
    optim: dict[str, Any]

    @property
    def sizes(self) -> list[int]:
        """How many numbers each parameter has."""
        return [math.prod(shape) for shape in self.shapes]

    def to_json(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()


def from_json(text: bytes) -> Layout:
    return Layout(**json.loads(text))


def of_parameters(parameters: Sequence[Parameter], optim: Optim) -> Layout:
    """Return the layout of a trainer's parameters."""
    return Layout(
        [each.name for each in parameters],
        [list(each.shape) for each in parameters],
        [each.grad_req != "null" for each in parameters],
        [each.lr_mult for each in parameters],
        [each.wd_mult for each in parameters],
        dataclasses.asdict(optim),
    )
