"""A trained net that is asked: for answers, for features, or for its worst mistakes.

Owns what `mxtrain.predict` does as a command and as a function alike; how answers are printed is the command's.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.inference import trained_run

if TYPE_CHECKING:  # which load mxnet
    from mxtrain.inference.input_samples import Input, Inputs
    from mxtrain.inference.worst_mistakes import Found
    from mxtrain.tasks.task import Task


class Opened(NamedTuple):
    """A checkpoint, its run and its task, before mxnet is loaded."""

    checkpoint: Checkpoint
    run: Run
    task: Task


class Asked(NamedTuple):
    """The trained net that is asked, and its task."""

    task: Task
    net: Any
    context: Any

    @property
    def noun(self) -> str:
        """The name of a sample in answers."""
        return "image" if self.task.is_of_pictures else "input"


def opened(
    trained: Any, checkpoint: str | None, devices: str, instead: Mapping[str, Any], is_judged: bool
) -> Opened:
    """Return what is asked; a net that is not judged gets pictures that are normalised, as it does from `inputs_of`."""
    found = trained_run.find_checkpoint(trained, checkpoint, devices)
    run = trained_run.run_of(found, trained, instead)
    if not is_judged:
        run = dataclasses.replace(run, data=dataclasses.replace(run.data, normalize="host"))
    return Opened(found, run, trained_run.task_of(found, run))


@contextlib.contextmanager
def net_of(given: Opened, devices: str) -> Iterator[Asked]:
    """Yield the net on the first of the devices; loads mxnet."""
    with trained_run.net_of(given.checkpoint, given.run, devices) as (net, contexts):
        yield Asked(given.task, net, contexts[0])


def answers(
    asked: Asked, inputs: Inputs, top: int | None, threshold: float, embed: bool
) -> Iterator[tuple[Input, Any]]:
    """Yield each input with its answer, or with the DataError of one that is none."""
    from mxtrain.inference import batching

    task, net, context = asked
    if embed:
        compute = batching.features_by(task, net, f"--model {task.run.model.model}", context)
    else:
        compute = batching.said_by(task, net, context)
    for each, shown in batching.of(task, compute, inputs):
        yield each, shown if isinstance(shown, DataError) else cut(shown, top, threshold)


def mistakes(
    asked: Asked,
    source: str | None,
    count: int,
    on_bad: Callable[[DataError], object],
    out: Path | None = None,
) -> Found:
    """Return the worst mistakes in `source`, or in the run's own --val; `on_bad` is told of what is no sample.

    UsageError for a sample in the file `out`, which is to be written.
    """
    from mxtrain.inference import batching, input_samples, worst_mistakes

    source = source or asked.task.run.data.val
    if source is None:
        raise UsageError(
            "--mistakes: the run had no --val; give a .rec, or a folder with a folder for each class"
        )
    compute = worst_mistakes.judged_by(*asked)

    def judged() -> Iterator[tuple[Input, Any]]:
        for each, found in batching.of(asked.task, compute, input_samples.labelled(asked.task, source, out)):
            if isinstance(found, DataError):
                on_bad(found)
            else:
                yield each, found

    return worst_mistakes.worst(asked.task, judged(), count)


def cut(shown: dict[str, Any], top: int | None, threshold: float) -> dict[str, Any]:
    """Return an answer with its likeliest classes alone, where it has some: so many, or those above the threshold."""
    if "present" in shown:
        present = [name for name, share in shown["probabilities"].items() if share > threshold]
        return {**shown, "present": sorted(present, key=shown["probabilities"].get, reverse=True)}
    return {**shown, "classes": shown["classes"][:top]} if "classes" in shown else shown
