"""The mean and the deviation by which pictures are normalised: ImageNet's, given, or those of the training set.

Owns computing them, and where a checkpoint keeps them: in the description of its data, unless they are ImageNet's.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Mapping, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from mxtrain.config import Data, Run
from mxtrain.config.values import mean_deviation
from mxtrain.config.values.mean_deviation import AUTO, IMAGENET, Numbers
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import machine
from mxtrain.data.augment.transforms import IMAGENET_MEAN, IMAGENET_STD, eval_transform
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.interfaces import Dataset, Records

SAMPLED = 2000  # pictures, evenly spread over the set; more would change the third digit


class Normalisation(NamedTuple):
    """Of pixels from 0 to 1, a number for each channel."""

    mean: Numbers
    deviation: Numbers


OF_COLOURS = Normalisation(IMAGENET_MEAN, IMAGENET_STD)


def of_imagenet(channels: int) -> Normalisation:
    """Return ImageNet's numbers; those of grey pictures are the means over colours."""
    if channels == len(IMAGENET_MEAN):
        return OF_COLOURS
    return Normalisation((float(np.mean(IMAGENET_MEAN)),), (float(np.mean(IMAGENET_STD)),))


def of_description(data: Data, description: Mapping[str, Any]) -> Normalisation:
    """Return the numbers by which a run normalises."""
    known = of_imagenet(data.channels)
    return Normalisation(
        tuple(description.get("mean", known.mean)), tuple(description.get("deviation", known.deviation))
    )


def described(run: Run, train: Dataset) -> dict[str, Any]:
    """Return the keys of the description of the data; none where all is ImageNet's."""
    data = run.data
    flags = {"mean": data.mean, "deviation": data.deviation}
    measured = _measured(run, train)._asdict() if AUTO in flags.values() else {}
    found: dict[str, Any] = {}
    for name, text in flags.items():
        if text != IMAGENET:
            numbers = mean_deviation.parse_numbers(f"--{name}", text, data.channels) or measured[name]
            found[name] = list(numbers)
    return found


def _measured(run: Run, train: Dataset) -> Normalisation:
    """Return mean and deviation of the pixels that an evaluation of the training set would see, of some pictures.

    Sums are of whole numbers, so that every worker finds the same.
    """
    if not hasattr(train, "read"):
        raise UsageError(
            f"--mean auto: the pictures of --train {train.path} are not known beforehand; give numbers, or leave it out"
        )
    chosen = np.unique(np.linspace(0, len(train) - 1, SAMPLED).astype(np.int64)).tolist()
    with ThreadPoolExecutor(machine.usable_cores()) as threads:
        sums = [
            each for each in threads.map(_Sums(run.data, cast(Records, train)), chosen) if each is not None
        ]
    if not sums:
        raise DataError(
            f"{train.path}: none of {len(chosen)} pictures can be read; check it, or give --mean numbers"
        )
    first, second = np.sum(sums, axis=0).astype(np.float64) / (len(sums) * _num_pixels(run.data))
    deviation = np.sqrt(np.maximum(second - first**2, 0)) / 255
    if deviation.min() < mean_deviation.SMALLEST:
        raise DataError(
            f"{train.path}: the pixels of a channel are all alike; give --deviation a number, such as 0.25"
        )
    # Six digits: the same text wherever it was computed.
    return Normalisation(*(tuple(round(float(each), 6) for each in row) for row in (first / 255, deviation)))


class _Sums:
    """The function from a picture's position to the sums of its pixels and of their squares, for each channel."""

    def __init__(self, data: Data, records: Records):
        from mxtrain.data.image_fields import resize_of, shape_of

        self._records, self._shape = records, shape_of(data)
        normalisation = of_imagenet(data.channels)  # not applied to bytes
        self._transform = eval_transform(data.image_size, resize_of(data), *normalisation)

    def __call__(self, position: int) -> npt.NDArray[np.int64] | None:
        pixels = np.empty(self._shape, np.uint8)
        try:
            self._transform(self._records.read(position).payload, None, pixels)
        except (DataError, BadPicture):
            return None  # training will say so, or pass it over
        rows = pixels.reshape(len(pixels), -1).astype(np.int64)
        return np.array([rows.sum(axis=1), (rows * rows).sum(axis=1)])


def _num_pixels(data: Data) -> int:
    from mxtrain.data.image_fields import shape_of

    return math.prod(shape_of(data)[1:])
