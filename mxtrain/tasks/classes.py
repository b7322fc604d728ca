"""The common parts of tasks of classes: their base, descriptions, the losses of a micro-batch, answers in words.

Owns the half of a task behind the net, where that answers with one of several classes for each sample.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from mxtrain.data.fields import Array, Arrays
from mxtrain.tasks.inputs.net_inputs import OF_COLOURED_PICTURES, NetInputs
from mxtrain.tasks.task import Description, Outcome, Task, TaskPrediction

if TYPE_CHECKING:
    from mxtrain.models.heads.chunked_head import Softmax
    from mxtrain.models.heads.margins import Margin
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net

HEAD_CLASSES = "head_classes"  # in the arrays of a micro-batch: those over which its loss is, if not all
# Of an evaluation of a head in chunks, where nothing has the scores of all classes.
RANK_COLUMNS = ("rank", "predicted", "probability", "label_probability")


class TaskOfClasses(Task, TaskPrediction):
    """The base of tasks whose description has `class_names`, one for each class that a net tells apart."""

    @property
    def class_names(self) -> list[str]:
        names: list[str] = self.description["class_names"]
        return names


def probabilities(scores: Array) -> Array:
    """Return the probability of each class by a net's scores for one sample."""
    scores = scores.astype(np.float64)
    with np.errstate(invalid="ignore"):  # a net that has diverged
        shares: Array = np.exp(scores - scores.max())
        shares /= shares.sum()
    return shares


def answered(scores: Any, label: Any) -> dict[str, Any]:
    """Return the `sample_result` of a class; nothing of what a user's task makes of other arrays."""
    if np.ndim(scores) != 1 or np.ndim(label) or not 0 <= label < len(scores):
        return {}
    shares, predicted = probabilities(scores), int(np.argmax(scores))
    return {
        "label": int(label),
        "predicted": predicted,
        "probability": float(shares[predicted]),
        "label_probability": float(shares[int(label)]),
    }


def answered_in_ranks(row: Array | None, arrays: Arrays) -> dict[str, Any]:
    """Return what an evaluation says of one sample, from its row of `RANK_COLUMNS`."""
    if row is None:
        return {}
    _, predicted, probability, of_label = row.tolist()
    return {
        "label": int(arrays["label"]),
        "predicted": int(predicted),
        "probability": probability,
        "label_probability": of_label,
    }


def likeliest_first(class_names: Sequence[str], output: Array) -> dict[str, Any]:
    """Return all classes with their probabilities, the likeliest first."""
    order = np.argsort(-output, kind="stable")
    return {"classes": [{"class": class_names[i], "probability": float(output[i])} for i in order]}


def classes_in_words(shown: Mapping[str, Any]) -> str:
    """Return such classes in a line."""
    return ", ".join(f"{each['class']} {each['probability']:.3f}" for each in shown["classes"])


def described(class_names: list[str], weights: list[float] | None) -> Description:
    """Return the description of classes; where all count alike it is that of older checkpoints."""
    return {"class_names": class_names, **({} if weights is None else {"class_weights": weights})}


@dataclasses.dataclass(frozen=True)
class ClassificationForward:
    """The losses of a micro-batch: of both labels where two samples were mixed, and partly a teacher's.

    The teacher, a trained net, sees the same pictures, mixed or not, on the same device, in inference mode. With class
    weights a sample counts as many as its class says: its loss, with the teacher's part, times that, over their sum. So
    it is with the weight of a sample.
    """

    loss: Any
    teacher: Block | None = None
    teacher_weight: float = 0.0
    temperature: float = 1.0
    class_weights: Sequence[float] | None = None
    inputs: NetInputs = OF_COLOURED_PICTURES

    def __call__(self, net: Net, arrays: NDArrays) -> Outcome:
        from mxtrain.runtime import mx

        data, label, weight = self.inputs(arrays), arrays["label"], arrays.get("sample_weight")
        # The loss is computed in float32 whatever the net runs in.
        output = net(*data).astype("float32", copy=False)
        counts = weighted(self.counts(label), weight)
        losses = counted(self.loss(output, self.targets(label)), counts)
        if "other_label" in arrays:
            other, share = arrays["other_label"], arrays["other_fraction"]
            other_counts = self.counts(other)
            losses = (1 - share) * losses + share * counted(
                self.loss(output, self.targets(other)), other_counts
            )
            counts = None if counts is None else (1 - share) * counts + share * other_counts
        if self.teacher is not None:
            apart = counted(self.distance(output, self._taught(self.teacher, data)), counts)
            losses = (1 - self.teacher_weight) * losses + self.teacher_weight * apart
        with mx.autograd.pause():
            means = self.means(output, label)
        return Outcome(losses, len(label) if counts is None else counts.sum(), means, output)

    def counts(self, label: Any) -> Any:
        """Return how much each label counts; None where each counts 1."""
        return class_counts(self.class_weights, label)

    def targets(self, label: Any) -> Any:
        """Return labels as the loss takes them."""
        return label

    def means(self, output: Any, label: Any) -> dict[str, tuple[Any, Any]]:
        """Return the sum and the count of each of the task's `step_means`."""
        from mxtrain.models.losses import likeliest

        return {"accuracy": ((likeliest(output) == label).sum(), len(label))}

    def distance(self, output: Any, taught: Any) -> Any:
        """Return how far each answer is from the teacher's."""
        from mxtrain.models.losses import distillation

        return distillation(output, taught, self.temperature)

    def _taught(self, teacher: Block, data: Sequence[NDArray]) -> NDArray:
        from mxtrain.runtime import mx

        with mx.autograd.pause(train_mode=False):
            found: NDArray = teacher(*data).astype("float32", copy=False)
        return found


@dataclasses.dataclass(frozen=True)
class ChunkedForward:
    """The losses of a micro-batch by a head in chunks: in training with the margin if there is one, else without.

    An evaluation has a row of `RANK_COLUMNS` for each sample.
    """

    margin: Margin | None
    is_training: bool
    class_weights: Sequence[float] | None = None
    inputs: NetInputs = OF_COLOURED_PICTURES

    def __call__(self, net: Net, arrays: NDArrays) -> Outcome:
        from mxtrain.models.heads import chunked_loss
        from mxtrain.models.heads.class_chunks import head_of
        from mxtrain.runtime import mx

        features, label = self.features(net, arrays), arrays["label"]
        head = head_of(net)
        labels = label.asnumpy().astype(np.int64)
        if self.is_training:
            classes = arrays[HEAD_CLASSES].asnumpy() if HEAD_CLASSES in arrays else None
            return self.outcome(*chunked_loss.losses(head, features, labels, self.margin, classes), label)
        softmax, ranks = chunked_loss.plain_ranks(head, features, labels, self.margin)
        rows = np.stack([ranks.own, ranks.likeliest, ranks.probabilities, np.exp(-softmax.losses)], axis=1)
        return Outcome(mx.nd.array(softmax.losses), len(label), {}, mx.nd.array(rows, dtype=np.float64))

    def features(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return what the head takes of a micro-batch."""
        features: NDArray = net(*self.inputs(arrays)).astype("float32", copy=False)
        return features

    def counts(self, label: Any) -> Any:
        """Return how much each label counts; None where each counts 1."""
        return class_counts(self.class_weights, label)

    def outcome(self, losses: NDArray, softmax: Softmax, label: Any) -> Outcome:
        """Return what a training pass comes to, from the loss of each sample."""
        counts, means = self.counts(label), {"accuracy": (float(softmax.are_right.sum()), len(label))}
        return Outcome(counted(losses, counts), len(label) if counts is None else counts.sum(), means)


def class_counts(class_weights: Sequence[float] | None, label: Any) -> Any:
    """Return how much each label counts; None where each counts 1."""
    from mxtrain.runtime import mx

    if class_weights is None:
        return None
    return mx.nd.array(class_weights, ctx=label.context).take(label)


def weighted(counts: Any, weight: Any) -> Any:
    """Return how much each label counts where its sample has a weight; None where neither says so."""
    if weight is None:
        return counts
    if counts is None:
        return weight
    return counts * weight if counts.ndim == 1 else counts * weight.expand_dims(1)


def counted(losses: Any, counts: Any) -> Any:
    """Return losses times how much each of them counts."""
    return losses if counts is None else counts * losses
