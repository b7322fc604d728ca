"""Test-time augmentation (`--tta`), and ensembles: the mean of several answers in the place of a net's one.

Owns the views of a picture and what the mean of answers is. A `MeanAnswer` is called as a net is, so the task's own
losses and metrics judge it. Views are of pictures that the loader has decoded once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Callable, Iterable, Sequence

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run, program_objects
from mxtrain.config.components import choices
from mxtrain.config.values import sizes
from mxtrain.config.values.sizes import ImageSize, Size
from mxtrain.core.errors import UsageError
from mxtrain.data import image_fields
from mxtrain.tasks.task import Task

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, Net

View = Callable[["NDArray"], "NDArray"]  # from the pictures of a micro-batch to as many others
METRIC_KINDS = ("classes", "labels", "numbers")  # of Task.metric_kind


def kinds_of(text: str) -> tuple[str, ...]:
    """Return the parts of --tta, such as `flip+crops`; UsageError for one that there is not."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split("+"))) if text else ()
    for part in found:
        if part not in choices.TTA:
            raise UsageError(
                f"--tta {text}: no '{part}'; give {', '.join(choices.TTA)}, or several joined by +"
            )
    return found


def check(text: str, task: Task) -> None:
    """Refuse --tta for a task whose samples are no pictures, or whose answers have no mean."""
    if not kinds_of(text):
        return
    name = task.run.model.task
    if "image_size" not in task.flags:
        raise UsageError(
            f"--tta {text}: the run's task, {name}, has no pictures to turn or crop; leave it out"
        )
    others = [view for view in kinds_of(text) if view not in (task.own_views or choices.TTA_OF_ANY)]
    if others:
        known = " and ".join(task.own_views or choices.TTA_OF_ANY)
        raise UsageError(f"--tta {others[0]}: --task {name} takes {known} alone")
    if task.own_views:
        return
    if task.metric_kind not in METRIC_KINDS:
        raise UsageError(
            f"--tta {text}: --task {name} does not say what its answers are; give it `metric_kind`"
        )


def judging_at(task: Task, masks_at: str) -> Task:
    """Return the task as it judges masks there; UsageError for one without masks."""
    if masks_at not in choices.MASKS_AT:
        raise UsageError(f"--masks-at {masks_at}: give {' or '.join(choices.MASKS_AT)}")
    if masks_at == choices.MASKS_AT_NET:
        return task
    found = task.judging_originals()
    if found is None:
        raise UsageError(
            f"--masks-at {masks_at}: the run's task, {task.run.model.task}, has no masks; leave it out"
        )
    return found


def check_ensemble(members: Sequence[Checkpoint], task: Task) -> None:
    """Refuse --ensemble of a single net, and of nets whose answers have no mean."""
    name = task.run.model.task
    if len(members) < 2:
        raise UsageError(f"--ensemble: {members[0].path} is one checkpoint; name several, or leave it out")
    if task.metric_kind not in METRIC_KINDS:
        raise UsageError(
            f"--ensemble: answers of --task {name} have no mean; leave it out for the mean of the weights"
        )
    if program_objects.is_object(task.run.model.model):
        raise UsageError(
            "--ensemble: the net that the program gave holds one checkpoint at a time; leave it out"
        )


def reading(run: Run, tta_names: Sequence[str]) -> Run:
    """Return the run as the loader has to read for these views.

    For crops pictures have what is around the centre, and for windows twice the height and width.
    """
    if "windows" in tta_names:
        data = dataclasses.replace(
            run.data, image_size=_plain(sizes.height_and_width(run.data.image_size), 2)
        )
        return dataclasses.replace(run, data=data)
    if "crops" not in tta_names:
        return run
    size, resize = sizes.height_and_width(run.data.image_size), image_fields.resize_of(run.data)
    if resize <= min(size):
        raise UsageError(
            f"--tta crops: --val-resize {resize} leaves nothing around a picture of --image-size "
            f"{run.data.image_size}; "
            f"give --tta flip, or a higher --val-resize, as {round(min(size) * 8 / 7)}"
        )
    whole = Size(*(round(side * resize / min(size)) for side in size))
    data = dataclasses.replace(run.data, image_size=_plain(whole), val_resize=min(whole))
    return dataclasses.replace(run, data=data)


def _plain(size: Size, times: int = 1) -> ImageSize:
    """Return a size as --image-size has it, so many times as high and wide."""
    height, width = (side * times for side in size)
    return height if height == width else str(Size(height, width))


def views(run: Run, tta_names: Sequence[str]) -> list[View]:
    """Return the views of pictures that were read for them: five crops, or one, and each also from right to left."""
    found: list[View] = [_same]
    if "crops" in tta_names:
        size = sizes.height_and_width(run.data.image_size)
        found = [Crop(vertical, horizontal, size) for vertical, horizontal in PLACES]
    if "flip" in tta_names:
        found = [each for view in found for each in (view, Flipped(view))]
    return found


# The centre, as without --tta, then the corners: how far down and to the right of what is there, in halves.
PLACES = ((1, 1), (0, 0), (0, 2), (2, 0), (2, 2))


def _same(data: NDArray) -> NDArray:
    return data


@dataclasses.dataclass(frozen=True)
class Crop:
    """The view of a part of the pictures."""

    vertical: int
    horizontal: int
    size: Size

    def __call__(self, data: NDArray) -> NDArray:
        height, width = data.shape[2:]
        top = (height - self.size.height) * self.vertical // 2
        left = (width - self.size.width) * self.horizontal // 2
        bottom, right = top + self.size.height, left + self.size.width
        return data.slice(begin=(None, None, top, left), end=(None, None, bottom, right))


@dataclasses.dataclass(frozen=True)
class Flipped:
    """Another view from right to left."""

    view: View

    def __call__(self, data: NDArray) -> NDArray:
        return self.view(data).flip(axis=3)


@dataclasses.dataclass(frozen=True)
class MeanAnswer:
    """The mean answer of nets to views: of classes and labels the mean of probabilities, as scores that give these."""

    nets: Sequence[Net]
    views: Sequence[View]
    metric_kind: str

    def __call__(self, first: NDArray, *others: NDArray) -> NDArray:
        from mxtrain.runtime import mx

        answers = [
            net(view(first), *others).astype("float32", copy=False)
            for view in self.views
            for net in self.nets
        ]
        if self.metric_kind == "numbers":
            mean: NDArray = mx.nd.stack(*answers).mean(axis=0)
            return mean
        if self.metric_kind == "classes":
            return _log_mean([each.log_softmax(axis=-1) for each in answers])
        return _log_mean(map(_log_sigmoid, answers)) - _log_mean(_log_sigmoid(-each) for each in answers)


def _log_sigmoid(scores: NDArray) -> NDArray:
    from mxtrain.runtime import mx

    softplus: NDArray = mx.nd.Activation(-scores, "softrelu")
    return -softplus


def _log_mean(logarithms: Iterable[NDArray]) -> NDArray:
    """Return the logarithm of the mean of probabilities, from their logarithms; also where all of them are tiny."""
    from mxtrain.runtime import mx

    together = mx.nd.stack(*logarithms)
    largest = together.max(axis=0, keepdims=True)
    shares: NDArray = mx.nd.broadcast_sub(together, largest).exp().mean(axis=0, keepdims=True)
    mean: NDArray = shares.log() + largest
    return mean.squeeze(axis=0)
