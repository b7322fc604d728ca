"""What a worker asks of servers that hold the weights, as text.

MXNet brings a command's text to every server and waits until each has followed it, but brings no answer back. What a
server has to tell lies in the store, as keys (`updates.py`).
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Union


@dataclasses.dataclass(frozen=True)
class SetRate:
    """Updates have this learning rate from here on."""

    learning_rate: float


@dataclasses.dataclass(frozen=True)
class Assign:
    """What is pushed from here on is no gradient: it takes the place of what the key holds.

    Key number `stride` and the following ones hold what belongs to the parameters of the keys from 0 on.
    """

    stride: int


@dataclasses.dataclass(frozen=True)
class Update:
    """What is pushed from here on are gradients, and so many updates have been made before."""

    num_updates: int


Command = Union[SetRate, Assign, Update]
KINDS: dict[str, Any] = {"set_rate": SetRate, "assign": Assign, "update": Update}
LEAST = {"learning_rate": 0, "stride": 2, "num_updates": 0}


def text(command: Command) -> str:
    name = next(name for name, kind in KINDS.items() if isinstance(command, kind))
    return json.dumps({name: dataclasses.asdict(command)})


def parse(body: bytes) -> Command:
    """The command in that text; ValueError for anything else."""
    try:
        ((name, numbers),) = json.loads(body).items()
        command: Command = KINDS[name](**numbers)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"no command: {body[:200]!r}") from None
    for field in dataclasses.fields(command):
        number, kinds = getattr(command, field.name), (int, float) if field.type == "float" else (int,)
        if type(number) not in kinds or not LEAST[field.name] <= number < math.inf:
            raise ValueError(f"no command: {field.name} is {number!r}")
    return command
