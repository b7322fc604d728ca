"""The common part of tasks whose samples are named inputs beside a label: `arrays` and `recommendation`.

Owns what follows from the inputs, and from the half of a task behind the net (`targets/`, `classes.py`). What a sample
is, and which half it has, is each task's.
"""

from __future__ import annotations

import abc
import functools
from typing import TYPE_CHECKING, Any, ClassVar, Mapping, Protocol, Sequence

from mxtrain.config.components import nets as net_names
from mxtrain.config.program_objects import ProgramObjects
from mxtrain.data.arrays import array_fields
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.labels import sample_weights
from mxtrain.data.labels.sample_weights import WeightColumn
from mxtrain.models.contract import Contract
from mxtrain.tasks.inputs.net_inputs import Named, NetInputs
from mxtrain.tasks.task import Forward, Metric, Score, Task, TaskPrediction

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net


class Predicted(Protocol):
    """The half of a task behind the net: what is predicted, by which loss, and how it is judged and shown."""

    @property
    def metric_kind(self) -> str: ...
    @property
    def step_means(self) -> Sequence[str]: ...
    @property
    def score(self) -> Score: ...
    @property
    def field(self) -> Field: ...
    @property
    def num_outputs(self) -> int: ...
    @property
    def expects(self) -> str: ...
    def forward(self, inputs: NetInputs, objects: ProgramObjects, is_training: bool) -> Forward: ...
    def metrics(self) -> Sequence[Metric]: ...
    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]: ...
    def shown(self, output: Any) -> dict[str, Any]: ...
    def in_words(self, shown: Mapping[str, Any]) -> str: ...


class TaskOfInputs(Task, TaskPrediction):
    """A task whose description has `inputs`, and the place of weights of samples if they have some."""

    net_kind: ClassVar[str]  # of the nets that --model names, in `config/components/nets.py`

    @functools.cached_property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(map(array_fields.input_of_json, self.description["inputs"]))

    @property
    @abc.abstractmethod
    def predicted(self) -> Predicted:
        """The half of the task behind the net."""

    @property
    @abc.abstractmethod
    def input_fields(self) -> Sequence[Field]:
        """The arrays of a sample that the net takes, in its order."""

    @property
    def step_means(self) -> Sequence[str]:
        return self.predicted.step_means

    @property
    def metric_kind(self) -> str:
        return self.predicted.metric_kind

    @property
    def score(self) -> Score:
        return self.predicted.score

    @property
    def weight_column(self) -> WeightColumn | None:
        """The place of the weights of samples among their labels, if they have some."""
        return sample_weights.column_of_json(self.description.get("sample_weight"))

    @property
    def fields(self) -> Sequence[Field]:
        own = (*self.input_fields, self.predicted.field)
        return (*own, sample_weights.FIELD) if self.weight_column else own

    def contract(self) -> Contract:
        taken = self.input_fields
        return Contract(
            inputs=tuple(field.shape for field in taken),
            answer=(self.predicted.num_outputs,),
            noun="sample",
            takes=f"{', '.join(map(str, taken))} of each sample",
            expects=self.predicted.expects,
        )

    def build_net(self) -> Block:
        from mxtrain.models.nets import zoo

        text, outputs = self.run.model.model, self.predicted.num_outputs
        taken = {field.name: field.shape for field in self.input_fields}
        if net_names.takes(text) == self.net_kind:
            return net_names.build(text, inputs=taken, outputs=outputs)
        return zoo.user_net(text, self.objects, inputs=taken, outputs=outputs)

    @property
    def _taken(self) -> Named:
        return Named(tuple(field.name for field in self.input_fields))

    def training_forward(self, teacher: Block | None) -> Forward:
        return self.predicted.forward(self._taken, self.objects, is_training=True)

    def plain_forward(self) -> Forward:
        return self.predicted.forward(self._taken, self.objects, is_training=False)

    def metrics(self) -> Sequence[Metric]:
        return self.predicted.metrics()

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        return self.predicted.sample_result(output, arrays)

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        return net(*self._taken(arrays)).astype("float32", copy=False)

    def shown(self, output: Array) -> dict[str, Any]:
        return self.predicted.shown(output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return self.predicted.in_words(shown)
