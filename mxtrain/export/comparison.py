"""An export compared with the net that it was made from, on real samples.

Owns the differences and what is refused. How an export is made to answer is each export's own affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.real_samples import Batch
from mxtrain.runtime import mx
from mxtrain.train.net.to_device import to_device

if TYPE_CHECKING:
    from mxtrain.export.pixel_input import NetOfPixels
    from mxtrain.runtime.types import Block

Answer = Callable[[Batch], Sequence[Array]]  # an array for each output of the graph


class Differences(NamedTuple):
    """The differences between the answers of an export and of its net."""

    samples: int
    absolute: float  # the largest
    relative: float  # that, as a share of the largest number that the net answers
    same_top1: float | None  # the share of equal best classes; None where answers have no best one

    def in_words(self) -> str:
        """Return them for people."""
        top1 = "" if self.same_top1 is None else f", the same best class for {self.same_top1:.2%}"
        of_all = f"{self.relative:.1e} of the largest answer"
        return f"on {self.samples} samples: largest difference {self.absolute:.1e}, {of_all}{top1}"


def compare(
    net: Block | NetOfPixels,
    graph: InferenceGraph,
    answer: Answer,
    batches: Sequence[Batch],
    has_best: bool = True,
) -> Differences:
    """Return how far the answers of an export are from those of the net.

    `has_best` says whether the largest number of the last axis is the net's decision.
    """
    samples, absolute, largest, rows, same = 0, 0.0, 0.0, 0, 0
    for batch in batches:
        samples += len(next(iter(batch.values())))
        for ours, theirs in zip(answer_of_net(net, batch), answer(batch)):
            if not np.isfinite(ours).all():
                raise DataError(
                    f"{graph.name}: the net itself gives answers that are not finite; it has diverged"
                )
            if theirs.shape != ours.shape:
                raise DataError(
                    f"the export of {graph.name} gives {theirs.shape} where the net gives {ours.shape}"
                )
            with np.errstate(invalid="ignore"):
                apart = np.abs(ours.astype(np.float64) - theirs)
            absolute = max(absolute, float(apart.max()) if np.isfinite(theirs).all() else np.inf)
            largest = max(largest, float(np.abs(ours).max()))
            rows += ours[..., 0].size
            same += int((ours.argmax(axis=-1) == theirs.argmax(axis=-1)).sum())
    has_best = has_best and all(shape and shape[-1] > 1 for shape in graph.outputs.values())
    relative = absolute / largest if largest else float(absolute > 0)
    return Differences(samples, absolute, relative, same / rows if has_best else None)


def refuse_beyond(
    tolerance: float, differences: Differences, format_name: str, graph: InferenceGraph
) -> None:
    """Refuse an export of this format whose relative difference is beyond `tolerance`."""
    if differences.relative > tolerance:
        raise DataError(
            f"the {format_name} export of {graph.name} does not answer as the net does, {differences.in_words()}; more "
            f"than {tolerance:g} of the largest answer is refused, and nothing is left of it"
        )


def refuse_apart(tolerance: float, apart: float, what: str) -> None:
    """Refuse answers, which `what` names, that are further from the net's than `tolerance`, or are not numbers."""
    if not apart <= tolerance:
        raise DataError(
            f"{what} are not the net's: they differ by {apart:.1e}, and more than {tolerance:g} is refused"
        )


def answer_of_net(net: Block | NetOfPixels, batch: Batch) -> list[Array]:
    """Return what the net says of a batch, an array for each output."""
    output = net(*(to_device(each, mx.cpu()) for each in batch.values()))
    return [each.asnumpy() for each in (output if isinstance(output, (list, tuple)) else [output])]
