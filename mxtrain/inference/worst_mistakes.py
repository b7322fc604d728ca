"""The worst mistakes of a net among samples that have labels, the largest loss first, and their pictures as files.

Owns which these are. Losses are those of an evaluation, as is what the task says of a sample.
"""

from __future__ import annotations

import heapq
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.core import durable
from mxtrain.core.errors import DataError
from mxtrain.data.fields import Arrays
from mxtrain.inference.batching import Compute
from mxtrain.inference.input_samples import Input
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.net.to_device import to_device

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device, Net

_SUFFIX_OF = (
    (b"\xff\xd8", ".jpg"),
    (b"\x89PNG", ".png"),
    (b"RIFF", ".webp"),
    (b"BM", ".bmp"),
    (b"GIF8", ".gif"),
)


class Mistake(NamedTuple):
    """A sample with its loss and what the task says of it, classes by their names."""

    input: Input
    loss: float
    result: dict[str, Any]

    @property
    def shown(self) -> dict[str, Any]:
        """The mistake as it is told, for JSON."""
        source = {"source": self.input.source} if self.input.source else {}
        return {**source, **self.result, "loss": self.loss}


class WorstMistakes(NamedTuple):
    """The worst mistakes, the worst first; how many there are in all, and among how many samples."""

    worst: list[Mistake]
    num_mistakes: int
    num_samples: int


def loss_function(task: Task, net: Net, context: Device) -> Compute:
    """Return the function that computes the loss of each sample and what the task says of it, as evaluations do."""
    forward = tasks.function_of(task, task.plain_forward)
    result_of: Callable[..., dict[str, Any]] = tasks.without_failures(task, task.sample_result, {})

    def compute(arrays: Arrays) -> Iterable[tuple[float, dict[str, Any]]]:
        count = len(next(iter(arrays.values())))
        outcome = forward(net, {name: to_device(array, context) for name, array in arrays.items()})
        losses = outcome.losses.asnumpy()
        if losses.shape[:1] != (count,):
            raise DataError(
                "--mistakes: the loss of this task has no row for each sample; nobody can tell whose it is"
            )
        of_samples = losses.reshape(count, -1).sum(axis=1, dtype=np.float64).tolist()
        has_rows = getattr(outcome.output, "shape", ())[:1] == (count,)
        outputs = outcome.output.asnumpy() if has_rows else [None] * count
        results = (
            result_of(output, {name: array[row] for name, array in arrays.items()})
            for row, output in enumerate(outputs)
        )
        return zip(of_samples, results)

    return compute


def worst(task: Task, predictions: Iterable[tuple[Input, Any]], count: int) -> WorstMistakes:
    """Return the worst of the samples, of their `predictions` by such a function."""
    kept: list[tuple[float, int, Mistake]] = []  # a heap, the least bad first
    num_mistakes = num_samples = 0
    for place, (sample, (loss, result)) in enumerate(predictions):
        num_samples += 1
        if not is_mistake(result):
            continue
        num_mistakes += 1
        badness = float("inf") if np.isnan(loss) else loss
        entry = (badness, -place, Mistake(sample, loss, _named(task, result)))
        if len(kept) < count:
            heapq.heappush(kept, entry)
        elif entry[:2] > kept[0][:2]:
            heapq.heapreplace(kept, entry)
    return WorstMistakes([mistake for _, _, mistake in sorted(kept, reverse=True)], num_mistakes, num_samples)


def is_mistake(result: Mapping[str, Any]) -> bool:
    """Return whether a sample was answered wrongly; of numbers and the like every answer is off by something."""
    if "wrong" in result:
        return bool(result["wrong"])
    if "label_probability" in result:
        return bool(result["label"] != result["predicted"])
    if "ious" in result:
        return bool(result["taken_for"])
    return True


def in_words(shown: Mapping[str, Any]) -> str:
    """Return what is told of a mistake in a line."""
    source = f" ({shown['source']})" if "source" in shown else ""
    if "detections" in shown:
        has = ", ".join(str(name) for name, *_ in shown["boxes"]) or "nothing"
        seen = ", ".join(f"{name} {score:.2f}" for name, score, *_ in shown["detections"]) or "nothing"
        return f"loss {shown['loss']:.4g}, has {has}; detected {seen}{source}"
    if "ious" in shown:
        overlaps = ", ".join(f"{name} {iou:.2f}" for name, iou in shown["ious"])
        taken = ", ".join(f"{own} taken for {other}" for own, other, _ in shown["taken_for"])
        return f"loss {shown['loss']:.4g}, IoU of {overlaps or 'nothing'}; {taken}{source}"
    if "label_probability" not in shown:
        rest = ", ".join(f"{name} {value}" for name, value in shown.items() if name not in ("source", "loss"))
        return f"loss {shown['loss']:.4g}, {rest}{source}"
    taken = f"{shown['label']} taken for {shown['predicted']} {shown['probability']:.3f}"
    return f"{taken}, itself {shown['label_probability']:.3f}, loss {shown['loss']:.4g}{source}"


def write_pictures(folder: Path, mistakes: Sequence[Mistake]) -> None:
    """Write the pictures into a folder, called by their rank, their class and what they were taken for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise durable.cannot_write(folder, error) from None
    for rank, mistake in enumerate(mistakes, 1):
        if mistake.input.picture is None:
            continue
        payload = mistake.input.picture()
        class_names = (str(mistake.result[name]) for name in ("label", "predicted") if name in mistake.result)
        name = "-".join(
            [
                f"{rank:0{len(str(len(mistakes)))}d}",
                *(re.sub(r"[^\w.-]+", "_", each)[:60] for each in class_names),
            ]
        )
        path = folder / (name + _suffix(payload))
        with durable.whole_file(path) as file:
            file.write(payload)


def _suffix(payload: bytes) -> str:
    return next((suffix for magic, suffix in _SUFFIX_OF if payload.startswith(magic)), ".tif")


def _named(task: Task, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the task says of a sample, with classes by their names, not their numbers."""
    names = task.description.get("class_names")
    if not names or not result:
        return dict(result)
    if "detections" in result:
        return {
            **result,
            **{
                key: [[names[number], *others] for number, *others in result[key]]
                for key in ("boxes", "detections")
            },
        }
    if "ious" in result:
        ious = [[names[number], iou] for number, iou in result["ious"]]
        taken = [[names[own], names[other], count] for own, other, count in result["taken_for"]]
        return {**result, "ious": ious, "taken_for": taken}
    if "label_probability" in result:
        return {**result, **{each: names[result[each]] for each in ("label", "predicted")}}
    if "labels" in result:
        labels = [names[each] for each in result["labels"]]
        return {
            **result,
            "labels": labels,
            "wrong": [[names[each], share] for each, share in result["wrong"]],
        }
    return dict(result)
