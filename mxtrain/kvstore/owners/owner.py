"""The seam between a step and whoever owns what it trains: this process, or servers.

Owns the interface alone. A step pulls the weights that it computes with, pushes what it made of each parameter's
gradient, and learns from `finish` what it needs to decide on the update; it does not know who holds them. An `index` is
a parameter's position among all that are owned; arrays are flat, float32, and NumPy's unless they say otherwise.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Protocol, Sequence

from mxtrain.data.fields import Array
from mxtrain.optim.update import Update


class GradientSum(NamedTuple):
    """One worker's sum of a parameter's gradients over its micro-batches of a step."""

    values: Array  # each rounded once, from the exact total
    wide_blocks: (
        Array  # int64: blocks of `optim.sums.grid.BLOCK` numbers whose totals have more digits than float32
    )
    wide_totals: Array  # float64: the totals of these blocks, end to end


class StepSums(NamedTuple):
    """The numbers that a step decides by, of the sums over all workers; both in the order of the trained parameters."""

    squares: Array  # of each parameter, as `precision.l2_norm` computes them
    maxima: Array  # the largest absolute value of each block, as `Grid.end_step` needs them


class Pull(Protocol):
    """Weights on their way."""

    def wait(self) -> None:
        """Return once the arrays that were given to `Owners.pull` hold the weights; raises what kept them from it."""
        ...


class Owners(Protocol):
    """The owners of a run's parameters. All workers make the same calls but `put` and `write_state`, worker 0's."""

    def put(self, index: int, weights: Array) -> None:
        """Give a parameter its weights: the first ones, or a checkpoint's."""
        ...

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> Pull:
        """Start to copy weights, as the last update has left them, into these arrays."""
        ...

    def push(self, index: int, gradient: GradientSum) -> None:
        """Add a worker's sum to the step's; its arrays may be written to again once this returns."""
        ...

    def finish(self) -> StepSums:
        """Wait until every trained parameter has the sums of all workers, and return what is to be known of them."""
        ...

    def pull_sums(self, indices: Sequence[int], into: Sequence[Array]) -> Pull:
        """Start to copy sums of the step, between `finish` and what becomes of them, into these arrays."""
        ...

    def apply(self, update: Update) -> None:
        """Move all weights by the sums of the step; does not wait for it, later pulls do."""
        ...

    def drop(self) -> None:
        """Forget the sums of the step, and leave weights and states as they are."""
        ...

    def read_state(self, index: int) -> list[Array]:
        """Return copies of the optimizer's arrays of a parameter, as the last update has left them."""
        ...

    def write_state(self, index: int, arrays: Sequence[Array]) -> None:
        """Give a parameter the arrays that `read_state` returned."""
        ...

    def update_counts(self) -> Mapping[str, int]:
        """Return how often each trained parameter has been updated, by its index as text."""
        ...

    def set_update_counts(self, counts: Mapping[str, int]) -> None:
        """Go on from these counts."""
        ...
