"""The seam between training and what is learnt (docs/adr/0021).

Owns the Protocol that a task satisfies, and the values that it hands over. Each task has a file of its own beside this
one, or is the user's. Needs no mxnet; methods that do say so, and import it when they are called.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Protocol, Sequence

import numpy as np
import numpy.typing as npt

from mxtrain.config import Run
from mxtrain.data.assembly import SampleReader
from mxtrain.data.fields import Arrays, Field
from mxtrain.data.records import Dataset
from mxtrain.models.contract import Contract

Description = Dict[str, Any]  # that JSON can hold
State = npt.NDArray[np.float64]  # one-dimensional


class Outcome(NamedTuple):
    """Result of a forward pass. Arrays are MXNet's, perhaps still to be computed; single numbers may be plain."""

    losses: Any  # of any shape: their sum is the loss
    weight: Any  # by which the sum of all losses is to be divided, and so the sum of all gradients; may be 0
    means: Mapping[str, tuple[Any, Any]] = {}  # the sum and the count of each of the task's `step_means`
    output: Any = None  # what the task's metrics look at


Forward = Callable[
    [Any, Mapping[str, Any]], Outcome
]  # from a net and the arrays of a micro-batch on its device


class Score(NamedTuple):
    """The number of an evaluation by which checkpoints are compared."""

    name: str  # without `val_`
    is_lower_better: bool = False


class Metric(Protocol):
    """A judgement of a whole evaluation, made from a state for each micro-batch."""

    width: int  # of a state; 0 where states differ in length

    def state(self, output: Any, arrays: Arrays) -> State:
        """Return the state of a micro-batch, from the net's `output` and what the loader has made."""

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return the numbers, by name, from the states of all micro-batches in their order."""


class Task(Protocol):
    """Interface of what is learnt: made from a run, and from the description of its data that `describe` has given."""

    @property
    def description(self) -> Description:
        """The description that the task was made from."""

    @property
    def unit(self) -> str:
        """The samples' name in speeds: `images` for images_per_second."""

    @property
    def step_means(self) -> Sequence[str]:
        """The names of Outcome.means, which are reported for each step."""

    @property
    def score(self) -> Score:
        """The number of an evaluation that decides."""

    # --------------------------------------------------------------------------------------------------------
    # Data, without mxnet

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        """Check the data of `run`, with a DataError for what cannot be learnt, and return what must be known of it."""

    def __init__(self, run: Run, description: Description): ...

    def check(self, dataset: Dataset) -> None:
        """Refuse, with a DataError, a data set that a net of this task cannot be evaluated on."""

    def summary(self) -> str:
        """Return a few words about the data, as in `10 classes`."""

    @property
    def fields(self) -> Sequence[Field]:
        """The arrays of a sample."""

    def reader(self, is_training: bool) -> SampleReader:
        """Return the function that makes samples; worker processes get a pickled copy."""

    def of_batch(self, batch: Any, user: str) -> Arrays:
        """Return the arrays of a step from a batch of a user's DataLoader; `user` begins the message of a refusal."""

    def prepare(self, arrays: Arrays, step: int, position: int) -> Arrays:
        """Return the arrays of a micro-batch of training as the forward function takes them; may change them in place.

        What is drawn at random follows from the run's seed, `step` and `position` alone.
        """

    # --------------------------------------------------------------------------------------------------------
    # The net, with mxnet loaded

    def contract(self) -> Contract:
        """Return what the net takes and has to answer."""

    def build_net(self) -> Any:
        """Return the net, not initialised."""

    def training_forward(self, teacher: Any) -> Forward:
        """Return the function whose losses are learnt from; `teacher` is the net of --teacher, or None."""

    def plain_forward(self) -> Forward:
        """Return the function of evaluations: the loss as it is, without what helps training."""

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics of evaluations, whose numbers have different names."""
