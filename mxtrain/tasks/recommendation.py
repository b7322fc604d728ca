"""Recommendation: clicks, ratings or several labels of ids, such as of users and items, and of numbers beside them.

Owns which of these is learnt: targets that are all 1, 0 or -1 (unknown) are clicks, unless --loss compares numbers; all
else is numbers. Rows of ids are in tables, which nets look up (`models/nets/table.py`).
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import losses as loss_names
from mxtrain.config.components import nets as net_names
from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.data.arrays import array_sets, program_columns, table_selection
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.fields import Array, Arrays, BadSample, Field
from mxtrain.data.ids import id_reader, id_tables, implicit_feedback, shared_rows
from mxtrain.data.ids.column_roles import IDS
from mxtrain.data.ids.id_tables import SampleArrays
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.labels import label_checks, sample_weights, targets
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.tasks import task_flags
from mxtrain.tasks.inputs.named_inputs import TaskOfInputs
from mxtrain.tasks.targets.click_targets import PredictedClicks
from mxtrain.tasks.targets.number_targets import PredictedNumbers
from mxtrain.tasks.task import Description

CLICKS = "binary_cross_entropy"
FEW = 0.01  # of all targets: so many that are no clicks are taken for mistakes


class Recommendation(TaskOfInputs):
    """The task; its description has `inputs`, `class_names` or `targets`, and the place of weights."""

    flags = task_flags.OF_TABLES | task_flags.OF_IDS | {"model", "loss", "sample_weight"}
    nets = net_names.that_take(net_names.IDS)
    net_kind = net_names.IDS
    losses = (
        *loss_names.of_target(loss_names.LABELS),
        *loss_names.of_target(loss_names.NUMBERS),
        loss_names.AUTO,
    )
    suffixes = id_tables.SUFFIXES
    takes_names = True

    @classmethod
    def training_samples(cls, run: Run, dataset: Dataset) -> Dataset:
        return _with_negatives(run, dataset)

    @classmethod
    def evaluation_samples(cls, run: Run, dataset: Dataset, trained: Callable[[], Dataset]) -> Dataset:
        return _with_negatives(run, dataset, trained)

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        layout = id_tables.layout_of(train)
        shared_rows.check(run.data.shared_embedding, layout.inputs, train)
        weighted = sample_weights.split(run.data, train, val, layout.label_names, layout.weight)
        found = {
            "inputs": [each.as_json() for each in layout.inputs],
            **_described(run, weighted.train, weighted.val, weighted.names),
            **weighted.described,
        }
        if val is not None:
            cls(run, found).check(val)
        return found

    @functools.cached_property
    def predicted(self) -> PredictedClicks | PredictedNumbers:
        """The half of the task behind the net."""
        loss = self.run.model.loss
        if "targets" in self.description:
            described = targets.numbers_of_json(self.description["targets"])
            return PredictedNumbers(described, "l2" if loss == loss_names.AUTO else loss)
        return PredictedClicks(self.description["class_names"], CLICKS if loss == loss_names.AUTO else loss)

    def check(self, dataset: Dataset) -> None:
        array_sets.check(dataset, self.inputs)
        unweighted = sample_weights.without(dataset, self.weight_column, self.predicted.num_outputs)
        if isinstance(self.predicted, PredictedClicks):
            _check_clicks(unweighted, self.predicted.names)
        else:
            self.predicted.check(unweighted)

    def summary(self) -> str:
        weighted = f", {self.weight_column}" if self.weight_column else ""
        return f"{self.predicted.summary()} from {', '.join(map(_in_words, self.inputs))}{weighted}"

    @property
    def input_fields(self) -> Sequence[Field]:
        return id_reader.fields(self.inputs)

    def reader(self, is_training: bool) -> SampleReader:
        weight = self.weight_column
        place = None if weight is None else weight.place
        return id_reader.IdReader(self.inputs, self.predicted.num_outputs, place, is_training)

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        """Refuse samples of a program one by one: a column is what it is in all rows."""
        raise UsageError(
            f"{user}: samples are not taken one by one; give columns, as a mapping of arrays by name or a DataFrame, a "
            "table, or a .rec that is packed --from ids"
        )

    def groups(self, by: str) -> Callable[[Arrays], Array]:
        names = next((each.names for each in self.inputs if each.name == IDS), ())
        if by not in names:
            hint = nearest(by, names) if by else ""
            raise UsageError(
                f"by={by} is no column of categories{hint} ({', '.join(names) or 'there is none'}); give the one whose "
                "ids are users, as in ndcg:by=user"
            )
        return functools.partial(_ids_of_column, names.index(by))

    def samples_in(self, source: object) -> Sequence[tuple[str, object]]:
        """Return the rows of a table or a DataFrame; any other value is one sample, a mapping of values by column."""
        selection = table_selection.of_flags(self.run.data)
        if program_columns.is_frame(source):
            columns = program_columns.columns_of(source, "this table")
            return id_tables.samples_of(Path("this table"), columns, self.inputs, selection)
        if isinstance(source, (str, os.PathLike)):
            return id_tables.samples(Path(source), self.inputs, selection)
        if not isinstance(source, Mapping):
            raise DataError(f"a {type(source).__name__} is no sample; give a mapping of values by column")
        return [("this sample", id_tables.sample(source, self.inputs, selection))]

    def inputs_of(self, source: object) -> dict[str, Any]:
        values = source if isinstance(source, SampleArrays) else self.samples_in(source)[0][1]
        try:
            return id_reader.of_sample(self.inputs, values)
        except (BadSample, ValueError) as bad:
            raise DataError(f"no sample that the net takes: {bad}") from None


def _with_negatives(run: Run, dataset: Dataset, trained: Callable[[], Dataset] | None = None) -> Dataset:
    """Return a data set, with negatives beside its rows if `--negatives` says so.

    Items that users have chosen in the training set, which `trained` opens, are none of rows to evaluate on either.
    """
    wanted = implicit_feedback.parse(run.data.negatives)
    if wanted is None:
        return dataset
    if run.data.sample_weight:
        raise UsageError(f"{implicit_feedback.FLAG} with --sample-weight: negatives have none; leave one out")
    others = trained() if trained is not None else None
    found: Dataset = implicit_feedback.beside(dataset, wanted, run.optim.seed, others)
    return found


def _described(run: Run, train: Dataset, val: Dataset | None, names: Sequence[str]) -> Description:
    """Return the part of the description that says what is predicted; `names` are those of the numbers of a label."""
    loss = loss_names.parse(run.model.loss).name
    are_clicks = label_checks.are_yes_or_no(train.labels())
    if loss in loss_names.of_target(loss_names.LABELS) or (loss == loss_names.AUTO and are_clicks):
        return {"class_names": _check_clicks(train, list(names))}
    if loss == loss_names.AUTO:
        _refuse_almost_clicks(train, names)
    return {"targets": targets.check_targets(train, val, tuple(names)).as_json()}


def _refuse_almost_clicks(train: Dataset, names: Sequence[str]) -> None:
    """Refuse targets nearly all of which are clicks, as a single wrong one would make numbers of all."""
    rows = train.labels().reshape(len(train), -1)
    others = np.argwhere(~np.isin(rows, (-1, 0, 1)))
    if 0 < len(others) < FEW * rows.size:
        row, column = others[0].tolist()
        share = 1 - len(others) / rows.size
        raise DataError(
            f"{train.where(row)}: its {names[column]} is {rows[row, column]:g}, and {share:.2%} of the "
            "targets are 0, 1 or -1; mend it, or say with --loss what they are, as l2 (numbers)"
        )


def _check_clicks(dataset: Dataset, names: list[str]) -> list[str]:
    """Return the names of labels; DataError for the first label that is none."""
    labels = dataset.labels()
    rows = labels.reshape(len(labels), -1)
    if rows.shape[1] != len(names):
        raise DataError(
            f"{dataset.path}: has {rows.shape[1]} labels a sample, and the net learns {len(names)}"
        )
    wrong = np.argwhere(~np.isin(rows, (-1, 0, 1)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise DataError(
            f"{dataset.where(row)}: its {names[column]} is {rows[row, column]:g}; a label is 1 (yes), 0 (no) or -1 "
            "(unknown); give --loss l2 for numbers"
        )
    return names


def _ids_of_column(place: int, arrays: Arrays) -> Array:
    ids: Array = arrays[IDS][:, place]
    return ids


def _in_words(taken: Input) -> str:
    """Return an array in a few words."""
    if taken.varies:
        return f"lists of {taken.name}"
    return f"{taken.shape[0]} {taken.name}"
