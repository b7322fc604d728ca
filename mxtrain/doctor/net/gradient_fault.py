"""The block at fault for wrong gradients, from those of parameters and of the outputs of blocks. Pure."""

from __future__ import annotations

from typing import Any, Protocol, Sequence


class Call(Protocol):
    """The output of a call of a block: `gradient_taps.Tap`."""

    name: str
    class_name: str
    is_net: bool
    inputs: set[int]
    value: Any


def culprits(calls: Sequence[Call], last_wrong: int | None, wrong: Sequence[str]) -> list[str]:
    """Return who is at fault, as words.

    `calls` are outputs of blocks in the order of the forward pass, `last_wrong` is the place of the last one whose
    gradient is wrong, None where all are right, and `wrong` are names of parameters. What comes after the last wrong
    output has right gradients of its own output, and gives wrong ones to its input.
    """
    found = [] if last_wrong is None else _after(calls, last_wrong)
    right = calls if last_wrong is None else calls[last_wrong + 1 :]
    for call in right:  # the gradient that it gets is right, and its own parameters' is not
        own = [name for name in wrong if name.rpartition(".")[0] == call.name]
        if own:
            found.append(f"{in_words(call)}, for its {' and '.join(name.rpartition('.')[2] for name in own)}")
    return list(dict.fromkeys(found)) or ["what the net itself computes with its own parameters"]


def in_words(call: Call) -> str:
    """Return a block's name and class."""
    return f"{call.name or 'the net'} ({call.class_name})"


def _after(calls: Sequence[Call], place: int) -> list[str]:
    if calls[place].is_net:
        return ["the loss"]
    users = [in_words(call) for call in calls if place in call.inputs and not call.is_net]
    return users or [f"what the net does with the output of {in_words(calls[place])}"]
