"""The companions of a run's weights: what moves with them, step by step, and stays in checkpoints beside them.

Owns the moments at which a step, a checkpoint and an evaluation turn to them; by default nothing happens there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, ContextManager, Mapping

from mxtrain.core.params_file import Arrays


class Companion:
    """An average of the weights, a mask over them, or the like."""

    def holds_weights(self, step: int) -> bool:
        """Return whether the step that follows on `step` steps leaves the weights alone."""
        return False

    def after_update(self) -> None:
        """Do what is due when a step has moved the weights."""

    def after_step(self, step: int) -> None:
        """Do what is due when `step` steps are done, whether they have moved the weights or not."""

    def for_evaluation(self) -> ContextManager[None]:
        """Return a block in which the net computes with the weights that are to be judged."""
        return contextlib.nullcontext()

    def arrays(self) -> Arrays:
        """Return the arrays that a checkpoint keeps; without any it has no file of them."""
        return {}

    def values(self) -> dict[str, Any]:
        """Return the values that a checkpoint keeps in its state."""
        return {}

    def restore(self, path: Path, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint: `path` has its arrays, `saved` is its state."""
