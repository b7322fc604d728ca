"""Training losses by name: `--loss`. To add one is an entry here, and a function of outputs and labels.

Owns their numbers and what they compare. The functions are in `mxtrain/models/losses.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Mapping

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Spec, by_name


@dataclasses.dataclass(frozen=True)
class Loss(Component):
    """A loss. `factories` has a function for each kind of target that it compares: classes, labels or numbers.

    `labels` are 0 or 1 for each class; `cosines` are classes too, where the net's head answers with scaled cosines. A
    function takes outputs, targets, its numbers and, where it `is_smoothed`, the share of --label-smoothing as
    `smoothing`.
    """

    factories: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_smoothed: bool = False


CLASSES, LABELS, NUMBERS, COSINES = "classes", "labels", "numbers", "cosines"
_OWN = "mxtrain.models.losses:"
AUTO = "auto"  # of arrays: cross_entropy of classes, l2 of numbers

LOSSES = by_name(
    Loss(
        "cross_entropy",
        "of the softmax, with the class",
        factories={CLASSES: _OWN + "cross_entropy"},
        is_smoothed=True,
    ),
    Loss(
        "binary_cross_entropy",
        "of a sigmoid for each class, each a decision of its own",
        factories={CLASSES: _OWN + "binary_cross_entropy", LABELS: _OWN + "label_cross_entropy"},
        is_smoothed=True,
    ),
    Loss(
        "focal",
        "cross-entropy, less for samples that the net is certain of (Lin et al.)",
        # Below 1 the slope at a sample that is wholly right would be infinite.
        numbers={"gamma": Number(2.0, 1.0, 10.0)},
        factories={CLASSES: _OWN + "focal", LABELS: _OWN + "label_focal"},
    ),
    Loss(
        "arcface",
        "cross-entropy of scaled cosines, the class's angle made larger by `margin` (Deng et al.)",
        numbers={"scale": Number(64.0, 0.1, 1e4), "margin": Number(0.5, 0.0, 1.5)},
        factories={COSINES: _OWN + "arcface"},
    ),
    Loss(
        "cosface",
        "cross-entropy of scaled cosines, the class's made smaller by `margin` (Wang et al.)",
        numbers={"scale": Number(64.0, 0.1, 1e4), "margin": Number(0.35, 0.0, 1.0)},
        factories={COSINES: _OWN + "cosface"},
    ),
    Loss("l1", "the mean absolute difference", factories={NUMBERS: _OWN + "l1"}),
    Loss("l2", "the mean squared difference", factories={NUMBERS: _OWN + "l2"}),
    Loss(
        "huber",
        "half of the squared difference up to `delta`, beyond it a line",
        numbers={"delta": Number(1.0, 1e-6, 1e6)},
        factories={NUMBERS: _OWN + "huber"},
    ),
    Loss(AUTO, "what the data says: cross_entropy or l2 of arrays, binary_cross_entropy or l2 of ids"),
)


def of_target(target: str) -> tuple[str, ...]:
    """Return the names of the losses that compare this kind of target."""
    return tuple(loss.name for loss in LOSSES.values() if target in loss.factories)


SMOOTHED = tuple(loss.name for loss in LOSSES.values() if loss.is_smoothed)


def parse(text: str) -> Spec:
    """Parse --loss."""
    return component.parse("--loss", text, LOSSES)


def cosine_scale(text: str) -> float | None:
    """Return the scale of the cosines that --loss compares; None of a loss that takes a net's answer as it is."""
    name, hyperparameters = parse(text)
    return float(hyperparameters["scale"]) if name in of_target(COSINES) else None
