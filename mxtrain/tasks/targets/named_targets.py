"""The common part of targets that have names, as classes and labels do: outputs of the net, and how each counts."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Sequence


@dataclasses.dataclass(frozen=True)
class NamedTargets:
    """Targets, one output of the net for each, by the loss that `--loss` describes; `weights` say how each counts."""

    names: list[str]
    loss: str
    label_smoothing: float = 0.0
    weights: Sequence[float] | None = None

    noun: ClassVar[str]  # of several

    @property
    def num_outputs(self) -> int:
        return len(self.names)

    @property
    def expects(self) -> str:
        """The sentence about a net that answers something else."""
        num = self.num_outputs
        return f"there are {num} {self.noun}; it has to give one array of shape (samples, {num})"
