"""The seam between a detector's net and boxes: one array of answers a picture, what it should be, and what it says.

A net of any family answers with one array (pictures, positions, numbers). A coder, a small value that knows the
positions, makes targets of boxes, losses of answers and targets, and candidates of answers. It never sees the net.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Mapping, NamedTuple, Protocol, Sequence

from mxtrain.data.fields import Array

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray


class Losses(NamedTuple):
    """The losses of a micro-batch by their names, each a sum a picture, and what the sum of all is divided by."""

    by_name: Mapping[str, NDArray]
    weight: float
    means: Mapping[str, tuple[float, float]] = {}  # of what else is reported of a step, sums and counts


class Candidates(NamedTuple):
    """Boxes with scores, before those that overlap are suppressed."""

    scores: Any  # NDArray or Symbol: (pictures, positions, classes)
    boxes: Any  # (pictures, positions, 4): x1, y1, x2, y2 in pixels of what the net sees


class BoxCoder(Protocol):
    """A family's way between boxes and what its nets answer."""

    # Of two boxes of a class, from which on the one of the lower score is suppressed; 1: never.
    overlap: ClassVar[float]
    mean_names: ClassVar[Sequence[str]]  # those of losses, and of other means

    def targets(self, boxes: Array) -> Any:
        """Return what a net should answer, from boxes (pictures, n, 6) with -1 behind the last of each; NumPy alone."""

    def losses(self, answer: NDArray, targets: Any) -> Losses:
        """Return the losses of what a net answers."""

    def constants(self) -> Mapping[str, Array]:
        """Return the arrays that `candidates` computes with, each with a first axis of one."""

    def candidates(self, F: Any, answer: Any, constants: Mapping[str, Any]) -> Candidates:
        """Return all boxes that an answer tells; `F` is mx.nd, or mx.sym for a graph that does so."""
