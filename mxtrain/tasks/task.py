"""The seam between training and what is learnt (docs/adr/0021).

Owns the base class of a task, and the values that it hands over. Each task has a file of its own beside this one, or is
the user's. Needs no mxnet; methods that do say so, and import it when they are called.
"""

from __future__ import annotations

import abc
import dataclasses
import os
from pathlib import Path
from typing import Any, Callable, ClassVar, Collection, Dict, Mapping, NamedTuple, Protocol, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.data.user import user_samples
from mxtrain.models.contract import Contract

Description = Dict[str, Any]  # that JSON can hold
State = npt.NDArray[np.float64]  # one-dimensional
PredictionsAndTargets = Callable[[Any, Arrays], "tuple[Array, Array]"]  # a task's `predictions_and_targets`


class Outcome(NamedTuple):
    """Result of a forward pass. Arrays are MXNet's, perhaps still to be computed; single numbers may be plain."""

    losses: Any  # of any shape: their sum is the loss
    weight: Any  # by which the sum of all losses is to be divided, and so the sum of all gradients; may be 0
    means: Mapping[str, tuple[Any, Any]] = {}  # the sum and the count of each of the task's `step_means`
    output: Any = None  # what the task's metrics look at


Forward = Callable[
    [Any, Mapping[str, Any]], Outcome
]  # from a net and the arrays of a micro-batch on its device


NO_NUMBER = "is no number"  # said of a score, and read by a search


class Score(NamedTuple):
    """The number of an evaluation by which checkpoints are compared."""

    name: str  # without `val_`
    is_lower_better: bool = False


class Metric(Protocol):
    """A judgement of a whole evaluation, made from a state for each micro-batch.

    It may have `names`, those of its numbers, for --score; and `lower_is_better`, True or the names of which it is so.
    """

    width: int  # of a state; 0 where states differ in length

    def state(self, output: Any, arrays: Arrays) -> State:
        """Return the state of a micro-batch, from the net's `output` and what the loader has made."""

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return the numbers, by name, from the states of all micro-batches in their order."""


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """A thing to learn: made from a run, and from the description of its data that `describe` has given.

    A task has to say how samples, a net and its losses are made; all else has a default.
    """

    run: Run
    description: Description

    # The flags of `config/sections/`, by their names there, that it heeds of those in `task_flags.ONLY_SOME_TASKS`.
    flags: ClassVar[frozenset[str]] = frozenset()
    # What it takes of the nets and losses that `config/components/registry.py` names, where it heeds --model and
    # --loss.
    nets: ClassVar[Collection[str]] = ()
    losses: ClassVar[Collection[str]] = ()
    # How the names of files end that predict looks for in a folder; without any it takes all.
    suffixes: ClassVar[tuple[str, ...]] = ()
    # A str that predict gets from Python names a file, as it does for the command; a pathlib.Path always does.
    takes_names: ClassVar[bool] = False
    # How many of a stream's first samples `describe` gets, as a data set; with 0 it gets a stream that knows no labels.
    looks_at: ClassVar[int] = 0

    @property
    def unit(self) -> str:
        """The name of what speeds count: `images` for images_per_second."""
        return "samples"

    @property
    def units_per_sample(self) -> int:
        """The number of such units in a sample."""
        return 1

    @property
    def is_of_pictures(self) -> bool:
        """Return True where samples are pictures, which `inputs_of` takes as encoded bytes too."""
        return "image_size" in self.flags

    @property
    def step_means(self) -> Sequence[str]:
        """The names of Outcome.means, which are reported for each step."""
        return ()

    @property
    def score(self) -> Score:
        """The number of an evaluation that decides."""
        return Score("loss", is_lower_better=True)

    @property
    def metric_kind(self) -> str:
        """The kind of `predictions_and_targets`: classes, labels, numbers or likelihoods, each with its own metrics."""
        return ""

    # --------------------------------------------------------------------------------------------------------
    # Data, without mxnet

    @classmethod
    def samples_of(cls, run: Run, dataset: Dataset) -> Dataset:
        """Return the samples that the task makes of a data set: by default, each of its records is one."""
        return dataset

    @classmethod
    @abc.abstractmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        """Check the data of `run`, with a DataError for what cannot be learnt, and return what must be known of it."""

    def check(self, dataset: Dataset) -> None:
        """Refuse, with a DataError, a data set that a net of this task cannot be evaluated on."""
        self.describe(self.run, dataset, None)

    def summary(self) -> str:
        """Return a few words about the data, as in `10 classes`."""
        return f"fields {', '.join(map(str, self.fields))}"

    @property
    @abc.abstractmethod
    def fields(self) -> Sequence[Field]:
        """The arrays of a sample."""

    @abc.abstractmethod
    def reader(self, is_training: bool) -> SampleReader:
        """Return the function that makes samples; worker processes get a pickled copy."""

    @classmethod
    def record_of(cls, key: int, item: Any, user: str) -> Record:
        """Return, as the reader takes it, the record of item `key` of a user's Dataset: by default of a pair (x, y).

        `user`, the flag and its value, begins the message of a refusal.
        """
        return user_samples.record_of_pair(key, item, user)

    def of_batch(self, batch: Any, user: str) -> Arrays:
        """Return the arrays of a step from a batch of a user's DataLoader: by default one array for each field.

        They are named, or in the order of `fields`. `user` begins the message of a refusal.
        """
        return user_samples.arrays_of_batch(self.fields, self.run.optim.batch_size, batch, user)

    def prepare(self, arrays: Arrays, step: int, position: int) -> Arrays:
        """Return the arrays of a micro-batch of training as the forward function takes them; may change them in place.

        What is drawn at random follows from the run's seed, `step` and `position` alone.
        """
        return arrays

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        """Return what people can look at of the samples of a micro-batch, as `prepare` has made it: none by default.

        Each has a caption, and is a text, or a picture as uint8 (height, width, colours).
        """
        return ()

    # --------------------------------------------------------------------------------------------------------
    # The net, with mxnet loaded

    @abc.abstractmethod
    def contract(self) -> Contract:
        """Return what the net takes and has to answer."""

    @abc.abstractmethod
    def build_net(self) -> Any:
        """Return the net, not initialised."""

    @abc.abstractmethod
    def training_forward(self, teacher: Any) -> Forward:
        """Return the function whose losses are learnt from; `teacher` is the net of --teacher, or None."""

    def plain_forward(self) -> Forward:
        """Return the function of evaluations: the loss as it is, without what helps training."""
        return self.training_forward(None)

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics of evaluations, whose numbers have different names."""
        return ()

    def predictions_and_targets(self, output: Any, arrays: Arrays) -> tuple[Array, Array]:
        """Return what metrics by name, and the user's functions, compare: predictions and targets of a micro-batch.

        Each with a row for each sample that counts; by default the output and the field `label`.
        """
        if "label" not in arrays:
            raise UsageError(
                f"--metric: --task {self.run.model.task} does not say what is judged; give it `predictions_and_targets`"
            )
        return output.asnumpy(), arrays["label"]

    def sample_result(self, output: Any, arrays: Arrays) -> dict[str, Any]:
        """Return what an evaluation says of one sample besides its loss, for JSON.

        `output` is the row of the outcome's output that is the sample's, None where it has none; `arrays` are its
        arrays.
        """
        return {}

    # --------------------------------------------------------------------------------------------------------
    # Predictions

    def samples_in(self, source: Any) -> Sequence[tuple[str, Any]]:
        """Return the samples that an input holds, and names for them: by default it is one, called what it is."""
        return [(str(source), source)]

    def path_of(self, source: Any) -> Path | None:
        """Return the path that an input names; None where it is a sample itself."""
        is_path = isinstance(source, os.PathLike) or (self.takes_names and isinstance(source, str))
        return Path(source) if is_path else None

    def inputs_of(self, source: Any) -> dict[str, Any]:
        """Return the values of those fields that the net takes, from a path or a Python value; DataError in words."""
        raise self._unpredictable()

    def answer(self, net: Any, arrays: Mapping[str, Any]) -> Any:
        """Return the net's output for a micro-batch of such inputs, without labels; needs mxnet."""
        raise self._unpredictable()

    def shown(self, output: npt.NDArray[Any]) -> dict[str, Any]:
        """Return what the output of one sample says, for JSON."""
        raise self._unpredictable()

    def in_words(self, shown: Mapping[str, Any]) -> str:
        """Return that in a line for people."""
        raise self._unpredictable()

    def _unpredictable(self) -> UsageError:
        name = self.run.model.task
        return UsageError(
            f"--task {name}: does not say how it predicts; give it inputs_of, answer, shown and in_words"
        )
