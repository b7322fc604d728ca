"""Regression: one or more numbers for each picture.

Pictures are read and augmented as classification has them. What numbers mean to training is `numbers.py`'s. Numbers for
arrays are the task `arrays`.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy.typing as npt

from mxtrain.config import Run, catalogue, names, sizes
from mxtrain.data import pictures, targets
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.fields import Field
from mxtrain.data.records import Dataset, Record
from mxtrain.models.contract import Contract
from mxtrain.tasks import heeded_flags, net_inputs
from mxtrain.tasks.numbers import PredictedNumbers
from mxtrain.tasks.task import Description, Forward, Metric, Task


class Regression(Task):
    """The task; its description is `{"targets": ...}`, names and statistics of the numbers."""

    flags = (heeded_flags.OF_PICTURES - {"mixup", "cutmix"}) | {"model", "loss"}
    nets = names.MODELS
    losses = catalogue.LOSSES_OF_NUMBERS
    unit = "images"
    step_means = PredictedNumbers.step_means
    score = PredictedNumbers.score

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        found = targets.numbers(train)
        if val is not None:
            targets.check(val, found)
        return {"targets": found.as_json()}

    @property
    def predicted(self) -> PredictedNumbers:
        return PredictedNumbers(targets.numbers_of_json(self.description["targets"]), self.run.model.loss)

    def check(self, dataset: Dataset) -> None:
        self.predicted.check(dataset)

    def summary(self) -> str:
        return self.predicted.summary()

    @property
    def fields(self) -> Sequence[Field]:
        dtype = pictures.dtype_of(self.run)
        return pictures.fields(self.run.data.image_size, dtype, self.predicted.field.shape)

    def reader(self, is_training: bool) -> pictures.PictureReader:
        size = self.run.data.image_size
        if is_training and not self.run.optim.overfit:
            return pictures.PictureReader(train_transform(self.run.data.augment, size))
        return pictures.PictureReader(eval_transform(size, pictures.resize_of(self.run.data)))

    @classmethod
    def record_of(cls, key: int, item: Any, user: str) -> Record:
        return pictures.record_of(key, item, user)

    def contract(self) -> Contract:
        size, predicted = self.run.data.image_size, self.predicted
        return Contract(
            inputs=((pictures.CHANNELS, *sizes.of(size)),),
            answer=(predicted.num_outputs,),
            noun="picture",
            takes=f"pictures of --image-size {size}",
            expects=predicted.expects,
        )

    def build_net(self) -> Any:
        from mxtrain.models import zoo

        return zoo.build(self.run.model.model, self.predicted.num_outputs)

    def training_forward(self, teacher: Any) -> Forward:
        return self.predicted.forward(net_inputs.of_pictures, is_training=True)

    def metrics(self) -> Sequence[Metric]:
        return self.predicted.metrics()

    def inputs_of(self, source: Any) -> dict[str, Any]:
        return {"data": pictures.input_of(source, self.run)}

    def answer(self, net: Any, arrays: Mapping[str, Any]) -> Any:
        return net(arrays["data"]).astype("float32", copy=False)

    def shown(self, output: npt.NDArray[Any]) -> dict[str, Any]:
        return self.predicted.shown(output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return self.predicted.in_words(shown)
