"""Regression: one or more numbers for each picture.

Pictures are read and augmented as classification has them. What numbers mean to training is `numbers.py`'s. Numbers for
arrays are the task `arrays`.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from mxtrain.config import Run, catalogue, names
from mxtrain.data import pictures, targets
from mxtrain.data.augment import eval_transform, train_transform
from mxtrain.data.fields import Field
from mxtrain.data.records import Dataset, Record
from mxtrain.data.targets import Numbers
from mxtrain.models.contract import Contract
from mxtrain.tasks import heeded_flags, numbers
from mxtrain.tasks.task import Description, Forward, Metric, Score, Task


class Regression(Task):
    """The task; its description is `{"targets": ...}`, names and statistics of the numbers."""

    flags = (heeded_flags.OF_PICTURES - {"mixup", "cutmix"}) | {"model", "loss"}
    nets = names.MODELS
    losses = catalogue.LOSSES_OF_NUMBERS
    unit = "images"
    step_means = numbers.STEP_MEANS
    score = Score("rmse", is_lower_better=True)

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        found = targets.numbers(train)
        if val is not None:
            targets.check(val, found)
        return {"targets": found.as_json()}

    @property
    def numbers(self) -> Numbers:
        return targets.numbers_of_json(self.description["targets"])

    def check(self, dataset: Dataset) -> None:
        targets.check(dataset, self.numbers)

    def summary(self) -> str:
        return numbers.summary(self.numbers)

    @property
    def fields(self) -> Sequence[Field]:
        dtype = pictures.dtype_of(self.run)
        return pictures.fields(self.run.data.image_size, dtype, label=(self.numbers.num,))

    def reader(self, is_training: bool) -> pictures.PictureReader:
        size = self.run.data.image_size
        if is_training and not self.run.optim.overfit:
            return pictures.PictureReader(train_transform(self.run.data.augment, size))
        return pictures.PictureReader(eval_transform(size, pictures.resize_of(self.run.data)))

    @classmethod
    def record_of(cls, key: int, item: Any, user: str) -> Record:
        return pictures.record_of(key, item, user)

    def contract(self) -> Contract:
        size, num = self.run.data.image_size, self.numbers.num
        return Contract(
            inputs=((pictures.CHANNELS, size, size),),
            answer=(num,),
            noun="picture",
            takes=f"pictures of --image-size {size}",
            expects=f"there are {num} numbers to predict; it has to give one array of shape (pictures, {num})",
        )

    def build_net(self) -> Any:
        from mxtrain.models import zoo

        return zoo.build(self.run.model.model, self.numbers.num)

    def training_forward(self, teacher: Any) -> Forward:
        from mxtrain.models import losses

        loss = losses.build_of_numbers(self.run.model.loss, self.numbers.num)
        return numbers.NumbersForward(self.numbers, _pictures, loss)

    def metrics(self) -> Sequence[Metric]:
        return numbers.metrics(self.numbers)


def _pictures(arrays: Mapping[str, Any]) -> Sequence[Any]:
    from mxtrain.models.normalize import normalized

    return (normalized(arrays["data"]),)
