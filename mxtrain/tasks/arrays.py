"""Named arrays: a class, several labels, or numbers, for each vector, series or set of readings.

Owns which of these is learnt: words are classes; several targets are numbers, or labels where --loss says so; and whole
numbers from 0 of which none is left out are classes unless --loss compares numbers. Inputs are standardised as they
are read (`data/arrays/array_reader.py`).
"""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.config import Data, Run
from mxtrain.config.components import losses as loss_names
from mxtrain.config.components import nets as net_names
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import array_fields, array_sets, program_columns, tables
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.arrays.array_reader import ArrayReader
from mxtrain.data.fields import BadSample, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import class_weights, label_checks, sample_weights, targets
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.data.user import user_samples
from mxtrain.tasks import task_flags
from mxtrain.tasks.classes import described as described_classes
from mxtrain.tasks.inputs.named_inputs import TaskOfInputs
from mxtrain.tasks.targets import several_labels
from mxtrain.tasks.targets.class_targets import PredictedClasses
from mxtrain.tasks.targets.number_targets import PredictedNumbers
from mxtrain.tasks.targets.several_labels import PredictedLabels
from mxtrain.tasks.task import Description

AUTO = loss_names.AUTO


class Arrays(TaskOfInputs):
    """The task; its description has `inputs`, and `class_names` or `targets`, and whether a sample `has_several`."""

    flags = task_flags.OF_CLASSES | task_flags.OF_TABLES | {"model", "loss", "sample_weight"}
    nets = net_names.that_take(net_names.ARRAYS)
    net_kind = net_names.ARRAYS
    losses = (*loss_names.of_target(loss_names.CLASSES), *loss_names.of_target(loss_names.NUMBERS), AUTO)
    looks_at = 1000
    suffixes = tables.SUFFIXES
    takes_names = True

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        layout = array_sets.layout_of(train, val)
        _check_net(run.model.model, layout.inputs)
        weighted = sample_weights.split(run.data, train, val, layout.label_names, layout.weight)
        found = _described(run, weighted.train, weighted.val, weighted.names)
        found = {"inputs": [each.as_json() for each in layout.inputs], **found, **weighted.described}
        if val is not None:
            cls(run, found).check(val)
        return found

    @functools.cached_property
    def predicted(self) -> PredictedClasses | PredictedLabels | PredictedNumbers:
        """The half of the task behind the net."""
        if "targets" in self.description:
            loss = "l2" if self.run.model.loss == AUTO else self.run.model.loss
            return PredictedNumbers(targets.numbers_of_json(self.description["targets"]), loss)
        loss = "cross_entropy" if self.run.model.loss == AUTO else self.run.model.loss
        half = PredictedLabels if self._has_several else PredictedClasses
        weights = self.description.get("class_weights")
        return half(self.description["class_names"], loss, self.run.optim.label_smoothing, weights)

    @property
    def _has_several(self) -> bool:
        return "has_several" in self.description

    def check(self, dataset: Dataset) -> None:
        array_sets.check(dataset, self.inputs)
        self.predicted.check(sample_weights.without(dataset, self.weight_column, self._num_labels))

    def summary(self) -> str:
        weighted = f", {self.weight_column}" if self.weight_column else ""
        return f"{self.predicted.summary()} from {', '.join(map(str, self.inputs))}{weighted}"

    @property
    def _num_labels(self) -> int:
        return math.prod(self.predicted.field.shape)

    @property
    def input_fields(self) -> Sequence[Field]:
        return array_fields.fields(self.inputs)

    def reader(self, is_training: bool) -> SampleReader:
        several = self._has_several
        num_classes = 0 if several else len(self.description.get("class_names", ()))
        advice = self._advice() if is_training and self.run.optim.epoch_steps else ""
        reader = ArrayReader(self.inputs, self.predicted.field.shape, num_classes, several, advice)
        return sample_weights.reader(reader, self.weight_column, self._num_labels, is_training)

    def _advice(self) -> str:
        """Say what to do about a sample of a stream that is not like those that were looked at."""
        seen = min(self.looks_at, self.run.optim.epoch_steps * self.run.optim.batch_size)
        shapes = (
            "shapes, and classes without --num-classes," if "class_names" in self.description else "shapes"
        )
        return f"leave it out of the stream; {shapes} are those of its first {seen} samples"

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        """Return the record of (x, y), with an array or several by name for x, or of a mapping with a target in it."""
        if isinstance(item, Mapping):
            item = array_sets.pair_of_mapping(item, user)
        record = user_samples.record_of_pair(key, item, user)
        values = {
            name: user_samples.to_numpy(each) for name, each in array_sets.named(record.payload).items()
        }
        return record._replace(payload=values)

    def samples_in(self, source: object) -> Sequence[tuple[str, object]]:
        """Return the rows of a table, a file of arrays or a DataFrame; any other value is one sample."""
        if program_columns.is_frame(source):
            columns = program_columns.columns_of(source, "this table")
            return tables.samples_of(Path("this table"), columns, self.inputs)
        if isinstance(source, (str, os.PathLike)):
            return tables.samples(Path(source), self.inputs)
        return [("this sample", source)]

    def inputs_of(self, source: object) -> dict[str, Any]:
        if not isinstance(source, Mapping) and len(self.inputs) > 1:
            names = ", ".join(each.name for each in self.inputs)
            raise DataError(
                f"a {type(source).__name__} is one array, and the net takes {names}; give a mapping"
            )
        values = source if isinstance(source, Mapping) else {self.inputs[0].name: source}
        try:
            named = {name: user_samples.to_numpy(each) for name, each in values.items()}
            return ArrayReader(self.inputs, ()).standardised(named)
        except (BadSample, ValueError) as bad:
            raise DataError(f"no sample that the net takes: {bad}") from None


def _described(run: Run, train: Dataset, val: Dataset | None, names: Sequence[str]) -> Description:
    """Return the part of the description that says what is predicted; `names` are those of the numbers of a label."""
    if _has_labels(run, train):
        found = label_checks.several_names(train, val, run.data.num_classes, names)
        weights = class_weights.of_labels(run.model.class_weights, train, found)
        return {**described_classes(found, weights), "has_several": True}
    if _has_classes(run, train):
        found = label_checks.class_names(train, val, run.data.num_classes)
        return described_classes(found, class_weights.of_classes(run.model.class_weights, train, found))
    task_flags.refuse_of_classes(run, f"{train.path} has numbers to predict")
    return {"targets": targets.check_targets(train, val, tuple(names)).as_json()}


def _check_net(text: str, inputs: Sequence[Input]) -> None:
    """Refuse numbers of --model that do not go with the data, or with each other."""
    name = net_names.parse(text).name
    net = net_names.NETS.get(name, net_names.Net(name))  # of the user's own nothing is known
    varying = next((each for each in inputs if each.varies), None)
    if net.needs_fixed_shapes and varying:
        raise UsageError(
            f"--model {text}: takes arrays of fixed shapes, and {varying.name} varies in length; give conv1d or lstm"
        )
    series = [each for each in inputs if each.varies or len(each.shape) > 1]
    if net.needs_one_length and len(series) > 1 and (varying or len({each.shape[0] for each in series}) > 1):
        names = " and ".join(each.name for each in series)
        raise UsageError(
            f"--model {text}: MXNet's LSTMs need series of one length side by side, and those of {names} differ; give "
            "conv1d, or pad them to one length"
        )


def _has_labels(run: Run, train: Dataset) -> bool:
    """Return whether each sample has several labels: more than one target, and a loss of labels."""
    loss, known = loss_names.parse(run.model.loss).name, train.labels()
    if loss not in several_labels.LOSSES or known.ndim < 2 or known.shape[1] < 2:
        return False
    if run.data.sampling != Data.sampling:
        raise UsageError(
            f"--sampling {run.data.sampling}: balances one class a sample, and {train.path} has {known.shape[1]} "
            "labels; leave it out"
        )
    return True


def _has_classes(run: Run, train: Dataset) -> bool:
    """Return whether what is to be predicted is a class; DataError where --loss compares something else."""
    loss = loss_names.parse(run.model.loss).name
    known = train.labels()
    if train.class_names:
        if loss in loss_names.of_target(loss_names.NUMBERS):
            raise DataError(
                f"{train.path}: its targets are classes ('{train.class_names[0]}' and others), and --loss {loss} "
                "compares numbers; leave it out"
            )
        return True
    if loss in loss_names.of_target(loss_names.NUMBERS) or (known.ndim > 1 and known.shape[1] > 1):
        return False
    if loss in loss_names.of_target(loss_names.CLASSES):
        return True
    values = np.unique(known)  # NaN is none of the whole numbers
    if run.data.num_classes and len(values) and np.isin(values, np.arange(run.data.num_classes)).all():
        return True
    return len(values) > 1 and np.array_equal(values, np.arange(len(values)))
