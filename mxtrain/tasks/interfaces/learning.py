"""The half of a task that says what is learnt: the net, its losses and its metrics (docs/adr/0021).

Owns the values that a task hands to training. Methods that need mxnet say so, and import it when they are called.
"""

from __future__ import annotations

import abc
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Collection,
    Mapping,
    NamedTuple,
    Protocol,
    Sequence,
    Tuple,
)

import numpy as np
import numpy.typing as npt

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array, Arrays
from mxtrain.models.contract import Contract
from mxtrain.tasks.interfaces.data import Description

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net
    from mxtrain.tasks.task import Task

SumAndCount = Tuple["NDArray | float", "NDArray | float"]
State = npt.NDArray[np.float64]  # one-dimensional
Output = Any  # what a task's forward function hands to its metrics: mostly what the net answers, an array of MXNet's
PredictionsAndTargets = Callable[
    [Output, Arrays], "tuple[Array, Array]"
]  # a task's `predictions_and_targets`


class Outcome(NamedTuple):
    """Result of a forward pass. Arrays are MXNet's, perhaps still to be computed; single numbers may be plain."""

    losses: NDArray  # of any shape: their sum is the loss
    weight: (
        NDArray | float
    )  # by which the sum of all losses, and so of all gradients, is to be divided; may be 0
    means: Mapping[str, SumAndCount] = {}  # of each of the task's `step_means`
    output: Output = None


# From a net and the arrays of a micro-batch on its device.
Forward = Callable[["Net", "NDArrays"], Outcome]


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

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the state of a micro-batch, from the net's `output` and what the loader has made."""

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        """Return the numbers, by name, from the states of all micro-batches in their order."""


class Report(Protocol):
    """A judgement of a whole evaluation that has a record `classes` besides its numbers (docs/records.md).

    It may have `names` and `lower_is_better` as a `Metric`.
    """

    def state(self, output: Output, arrays: Arrays) -> State:
        """Return the state of a micro-batch, of any length."""

    def judge(self, states: Sequence[State]) -> tuple[dict[str, float], dict[str, Any] | None]:
        """Return the numbers, by name, and the record, from the states of all micro-batches in their order."""


class TaskLearning(abc.ABC):
    """The half of a task that says what a net learns of its samples, and how it is judged."""

    run: Run
    description: Description

    # What it takes of the nets and losses that `config/components/` names, where it heeds --model and
    # --loss.
    nets: ClassVar[Collection[str]] = ()
    losses: ClassVar[Collection[str]] = ()

    # The views of --tta whose answers it puts together itself; those of any other task are averaged.
    own_views: ClassVar[Collection[str]] = ()

    @abc.abstractmethod
    def contract(self) -> Contract:
        """Return what the net takes and has to answer."""

    @abc.abstractmethod
    def build_net(self) -> Block:
        """Return the net, not initialised; needs mxnet, as do the forward functions."""

    @abc.abstractmethod
    def training_forward(self, teacher: Block | None) -> Forward:
        """Return the function whose losses are learnt from; `teacher` is the net of --teacher, or None."""

    def plain_forward(self) -> Forward:
        """Return the function of evaluations: the loss as it is, without what helps training."""
        return self.training_forward(None)

    def viewed_forward(self, views: Collection[str]) -> Forward:
        """Return `plain_forward`, with an output that several views of each sample make: some of `own_views`."""
        return self.plain_forward()

    @property
    def step_means(self) -> Sequence[str]:
        """The names of Outcome.means, which are reported for each step."""
        return ()

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics of evaluations, whose numbers have different names."""
        return ()

    def report(self) -> Report | None:
        """Return the task's own report on each class; None for that of its `metric_kind`, if it has one."""
        return None

    def judging_originals(self) -> Task | None:
        """Return the task as it judges in the sizes of the originals; None of one that knows no such difference."""
        return None

    @property
    def score(self) -> Score:
        """The number of an evaluation that decides."""
        return Score("loss", is_lower_better=True)

    @property
    def metric_kind(self) -> str:
        """The kind of `predictions_and_targets`: classes, labels, numbers or likelihoods, each with its own metrics."""
        return ""

    def predictions_and_targets(self, output: Output, arrays: Arrays) -> tuple[Array, Array]:
        """Return what metrics by name, and the user's functions, compare: predictions and targets of a micro-batch.

        Each with a row for each sample that counts; by default the output and the field `label`.
        """
        if "label" not in arrays:
            raise UsageError(
                f"--metric: --task {self.run.model.task} does not say what is judged; give it `predictions_and_targets`"
            )
        return output.asnumpy(), arrays["label"]

    def groups(self, by: str) -> Callable[[Arrays], Array]:
        """Return the function from arrays to a whole number for each row: that of the user whose candidate it is.

        For metrics that rank the candidates of each user, as `--metric ndcg:by=user` does; `by` is what it says there,
        empty if nothing. Rows are those of `predictions_and_targets`.
        """
        raise UsageError(f"--task {self.run.model.task} does not say whose a sample is; give it `groups`")

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        """Return what an evaluation says of one sample besides its loss, for JSON.

        `output` is the row of the outcome's output that is the sample's, None where it has none; `arrays` are its
        arrays.
        """
        return {}
