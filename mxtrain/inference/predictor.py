"""A predictor: a trained net that answers, gives features, and finds its worst mistakes.

Owns what `mxtrain.predict` does as a command and as a function alike; how answers are printed is the command's.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.config.components import choices
from mxtrain.core.errors import DataError, UsageError
from mxtrain.inference import text_generation, trained_run
from mxtrain.inference.trained_run import Trained

if TYPE_CHECKING:  # which load mxnet
    from mxtrain.inference.input_samples import Input, Inputs
    from mxtrain.inference.worst_mistakes import WorstMistakes
    from mxtrain.runtime.types import Device, Net
    from mxtrain.tasks.task import Task


USUAL_THRESHOLD = 0.5


class PredictOptions(NamedTuple):
    """The question that is put to a net, and how much is told of each answer, by the flags of these names."""

    top: int | None = None  # None: of all classes
    threshold: float | None = None  # None: USUAL_THRESHOLD
    embed: bool = False
    mistakes: int | None = None
    prompt: Sequence[str] | None = None
    target: str | None = None

    def check(self) -> None:
        """Refuse, with a UsageError, numbers out of range, and questions that do not go together."""
        if self.top is not None and self.top < 1:
            raise UsageError(f"--top {self.top}: give 1 or more")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise UsageError(f"--threshold {self.threshold:g}: give a probability from 0 to 1")
        if self.mistakes is not None and self.mistakes < 1:
            raise UsageError(f"--mistakes {self.mistakes}: give 1 or more")
        if self.target is not None and self.mistakes is None:
            raise UsageError(f"--target {self.target}: goes with --mistakes N; answers need none")
        text_generation.check_prompts(self.prompt or ())
        both = [f"--{name}" for name in ("embed", "mistakes", "prompt") if getattr(self, name)]
        if len(both) > 1:
            raise UsageError(f"{both[0]} and {both[1]} are two questions; leave one of them out")


class OpenedRun(NamedTuple):
    """A checkpoint, its run and its task, before mxnet is loaded."""

    checkpoint: Checkpoint
    run: Run
    task: Task


class Predictor(NamedTuple):
    """A trained net on a device, with its task: it answers, gives features, and finds its worst mistakes."""

    task: Task
    net: Net
    context: Device

    @property
    def noun(self) -> str:
        """The name of a sample in answers."""
        return "image" if self.task.is_of_pictures else "input"

    def predict(self, inputs: Inputs, options: PredictOptions) -> Iterator[tuple[Input, Any]]:
        """Yield each input with its answer, or its features, or with the DataError of one that is none."""
        from mxtrain.inference import batching

        if options.embed:
            flag = f"--model {self.task.run.model.model}"
            compute = batching.features_by(self.task, self.net, flag, self.context)
        else:
            compute = batching.prediction_function(self.task, self.net, self.context)
        for each, shown in batching.predict_batches(self.task, compute, inputs):
            yield each, shown if isinstance(shown, DataError) else cut(shown, options.top, options.threshold)

    def worst_mistakes(
        self, source: str | None, count: int, on_bad: Callable[[DataError], object], out: Path | None = None
    ) -> WorstMistakes:
        """Return the worst mistakes in `source`, or in the run's own --val; `on_bad` gets what is no sample.

        UsageError for a sample in the file `out`, which is to be written.
        """
        from mxtrain.inference import batching, input_samples, worst_mistakes

        source = source or self.task.run.data.val
        if source is None:
            raise UsageError(
                "--mistakes: the run had no --val; give a .rec, or a folder with a folder for each class"
            )
        compute = worst_mistakes.loss_function(*self)

        def with_losses() -> Iterator[tuple[Input, Any]]:
            samples = input_samples.labelled(self.task, source, out)
            for sample, prediction in batching.predict_batches(self.task, compute, samples):
                if isinstance(prediction, DataError):
                    on_bad(prediction)
                else:
                    yield sample, prediction

        return worst_mistakes.worst(self.task, with_losses(), count)


def open_run(
    trained: Trained, checkpoint: str | None, devices: str, instead: Mapping[str, Any], with_losses: bool
) -> OpenedRun:
    """Return the run that a command means; without losses its pictures are normalised as `inputs_of` gives them."""
    found = trained_run.find_checkpoint(trained, checkpoint, devices)
    run, objects = trained_run.run_of(found, instead), trained_run.objects_of(trained, instead)
    if not with_losses:
        run = dataclasses.replace(run, data=dataclasses.replace(run.data, normalize="host"))
    return OpenedRun(found, run, trained_run.task_of(found, run, objects))


def check_predicts(task: Task, with_losses: bool) -> None:
    """Refuse a task that does not say how it predicts; the worst mistakes, with losses, need no more than learning."""
    from mxtrain.tasks import registry as tasks

    if not with_losses:
        tasks.prediction_of(task)


@contextlib.contextmanager
def open_predictor(run: OpenedRun, devices: str, hold: str = choices.HOLD_ALL) -> Iterator[Predictor]:
    """Yield a predictor on the first of the devices, which holds its net as `net_of` says; loads mxnet."""
    opened = trained_run.net_of(run.checkpoint, run.run, devices, run.task.objects, hold, joins_layers=True)
    with opened as (net, (context, *_)):
        yield Predictor(run.task, net, context)


def cut(shown: dict[str, Any], top: int | None, threshold: float | None) -> dict[str, Any]:
    """Return an answer with its likeliest classes alone, where it has some: so many, or those above the threshold."""
    threshold = USUAL_THRESHOLD if threshold is None else threshold
    if "detections" in shown:
        return {**shown, "detections": [each for each in shown["detections"] if each["score"] > threshold]}
    if "present" in shown:
        present = [name for name, share in shown["probabilities"].items() if share > threshold]
        return {**shown, "present": sorted(present, key=shown["probabilities"].get, reverse=True)}
    return {**shown, "classes": shown["classes"][:top]} if "classes" in shown else shown
