"""The half of a task that says what a sample is: it reads data, and never needs mxnet (docs/adr/0021)."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any, Callable, ClassVar, Dict, Sequence

from mxtrain.config import Run
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.data.user import user_samples

Description = Dict[str, Any]  # that JSON can hold


class TaskData(abc.ABC):
    """The half of a task that says what a sample is; loader workers and checks of data need no more of it."""

    run: Run
    description: Description

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

    @classmethod
    def samples_of(cls, run: Run, dataset: Dataset) -> Dataset:
        """Return the samples that the task makes of a data set: by default, each of its records is one."""
        return dataset

    @classmethod
    def training_samples(cls, run: Run, dataset: Dataset) -> Dataset:
        """Return those samples with what is drawn beside them in training: by default nothing is."""
        return dataset

    @classmethod
    def evaluation_samples(cls, run: Run, dataset: Dataset, trained: Callable[[], Dataset]) -> Dataset:
        """Return those samples with what is drawn beside them in an evaluation: by default nothing is.

        `trained` opens the run's training set, with nothing beside it.
        """
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
    def record_of(cls, key: int, item: object, user: str) -> Record:
        """Return, as the reader takes it, the record of item `key` of a user's Dataset: by default of a pair (x, y).

        `user`, the flag and its value, begins the message of a refusal.
        """
        return user_samples.record_of_pair(key, item, user)

    def of_batch(self, batch: object, user: str) -> Arrays:
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

    def samples_in(self, source: object) -> Sequence[tuple[str, object]]:
        """Return the samples that an input of predict holds, and names for them: by default it is one, called so."""
        return [(str(source), source)]

    def path_of(self, source: object) -> Path | None:
        """Return the path that such an input names; None where it is a sample itself."""
        if isinstance(source, os.PathLike) or (self.takes_names and isinstance(source, str)):
            return Path(source)
        return None
