"""Anchors of the SSDs by name: their sizes, shapes and places, in pixels of the picture that a net sees.

Owns GluonCV's numbers. A picture of another size than the net is made for has anchors in proportion. They lie over the
whole picture, also where GluonCV's own steps do not reach its end (`ssd_300_mobilenet0.25`).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.config.components.zoo import detector_names
from mxtrain.config.values.sizes import Size
from mxtrain.data.fields import Array

Cells = Sequence["tuple[int, int]"]  # rows and columns of each map of features


class Spec(NamedTuple):
    """The anchors of a net: those of a level have sizes between its own and the next."""

    sizes: tuple[float, ...]  # one more than there are levels
    ratios: tuple[int, ...]  # how many of RATIOS each level has
    steps: tuple[int, ...]  # from anchor to anchor
    is_lite: bool = False  # its squares are half as large, and the first level has one alone


RATIOS = (1.0, 2.0, 0.5, 3.0, 1 / 3)  # of width to height
_SIX, _SEVEN = (3, 5, 5, 5, 3, 3), (3, 5, 5, 5, 5, 3, 3)
_STEPS_300, _STEPS_512 = (8, 16, 32, 64, 100, 300), (16, 32, 64, 128, 256, 512)
_OF_VOC_300 = Spec((30, 60, 111, 162, 213, 264, 315), _SIX, _STEPS_300)
_OF_300 = Spec((21, 45, 99, 153, 207, 261, 315), _SIX, _STEPS_300)
_OF_512 = Spec((51.2, 102.4, 189.4, 276.4, 363.52, 450.6, 492), _SIX, _STEPS_512)
_OF_COCO_512 = Spec((51.2, 133.12, 215.04, 296.96, 378.88, 460.8, 542.72), _SIX, _STEPS_512)
_SEVEN_OF_512 = Spec((51.2, 76.8, 153.6, 230.4, 307.2, 384.0, 460.8, 537.6), _SEVEN, (8, *_STEPS_512))
_LITE = Spec(
    (60, 105, 150, 195, 240, 285, 300), (3, 5, 5, 5, 5, 5), (16, 30, 60, 100, 150, 300), is_lite=True
)
_OTHERS = {
    "ssd_300_vgg16_atrous_voc": _OF_VOC_300,
    "ssd_300_mobilenet1.0_lite_coco": _LITE,
    "ssd_512_resnet50_v1_coco": _OF_COCO_512,
    "ssd_512_resnet50_v1_custom": _OF_COCO_512,
    "ssd_512_resnet152_v2_voc": _SEVEN_OF_512,
}


def spec_of(name: str) -> Spec:
    """Return the anchors of the SSD called `name`."""
    if "512_vgg16" in name:
        return _SEVEN_OF_512
    return _OTHERS.get(name, _OF_300 if detector_names.image_size_of(name) == 300 else _OF_512)


def num_per_cell(spec: Spec) -> list[int]:
    """Return how many anchors each level has in a cell."""
    return [len(_shapes(spec, level)) for level in range(len(spec.ratios))]


def anchors(name: str, cells: Cells, size: Size) -> Array:
    """Return all anchors (n, 4), centre and size, of a net with maps of so many cells for pictures of this size."""
    spec = spec_of(name)
    scale = min(size) / detector_names.image_size_of(name)
    levels = []
    for level, (rows, columns) in enumerate(cells):
        shapes = np.array(_shapes(spec, level)) * scale
        y, x = (_centres(count, spec.steps[level], length) for count, length in zip((rows, columns), size))
        grid = np.stack(np.broadcast_arrays(x[None, :, None], y[:, None, None]), axis=-1)
        whole = (rows, columns, len(shapes), 2)
        both = (np.broadcast_to(grid, whole), np.broadcast_to(shapes, whole))
        levels.append(np.concatenate(both, axis=-1).reshape(-1, 4))
    return np.concatenate(levels).astype(np.float32)


def _centres(count: int, step: int, length: int) -> Array:
    """Return the places of anchors along a side: a step apart if so they end where the picture does, within a step."""
    fits = abs(count * step - length) < step
    return (np.arange(count) + 0.5) * (step if fits else length / count)


def _shapes(spec: Spec, level: int) -> list[tuple[float, float]]:
    """Return width and height of the anchors in each cell of a level."""
    size, following = spec.sizes[level : level + 2]
    between = math.sqrt(size * following)
    of_ratios = [
        (size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in RATIOS[1 : spec.ratios[level]]
    ]
    if spec.is_lite:
        return [(size / 2, size / 2), *of_ratios, *([(between, between)] if level else [])]
    return [(size, size), (between, between), *of_ratios]
