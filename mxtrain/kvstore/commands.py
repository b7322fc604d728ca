"""The commands that a worker sends to servers which hold the weights, as text.

Owns their text and its parsing; `server_updater.py` executes them. MXNet sends a command's text to every server and
waits until each has executed it, but returns no answer. What a server has to report lies in the store, under keys.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Union


@dataclasses.dataclass(frozen=True)
class SetLearningRate:
    """Use this learning rate for the updates that follow."""

    learning_rate: float


@dataclasses.dataclass(frozen=True)
class Assign:
    """Take what is pushed from here on for values, not for gradients: each replaces what its key holds.

    Key `stride` and the following ones hold the optimizer state of the parameters of the keys from 0 on.
    """

    stride: int


@dataclasses.dataclass(frozen=True)
class ApplyUpdates:
    """Take what is pushed from here on for gradients again, after `num_updates` updates made before."""

    num_updates: int


@dataclasses.dataclass(frozen=True)
class AddInMemory:
    """Add arrays where they lie, of which the memory has been given to this server (`workers_memory.py`)."""


OfUpdater = Union[SetLearningRate, Assign, ApplyUpdates]
Command = Union[OfUpdater, AddInMemory]
COMMAND_TYPES: dict[str, Any] = {
    "set_learning_rate": SetLearningRate,
    "assign": Assign,
    "apply_updates": ApplyUpdates,
    "add_in_memory": AddInMemory,
}
HEAD = 0  # of commands that reach Python on a server
SMALLEST = {"learning_rate": 0, "stride": 2, "num_updates": 0}


def text(command: Command) -> str:
    """Return the text that `parse` reads."""
    name = next(name for name, command_type in COMMAND_TYPES.items() if isinstance(command, command_type))
    return json.dumps({name: dataclasses.asdict(command)})


def parse(body: bytes) -> Command:
    """Return the command in that text; raises ValueError for anything else."""
    try:
        ((name, fields),) = json.loads(body).items()
        command: Command = COMMAND_TYPES[name](**fields)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"no command: {body[:200]!r}") from None
    for field in dataclasses.fields(command):
        number, number_types = getattr(command, field.name), (int, float) if field.type == "float" else (int,)
        if type(number) not in number_types or not SMALLEST[field.name] <= number < math.inf:
            raise ValueError(f"no command: {field.name} is {number!r}")
    return command
