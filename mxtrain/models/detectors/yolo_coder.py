"""YOLOv3s between boxes and answers: each box is one anchor's, which its centre and its shape choose.

Owns what GluonCV's YOLOV3PrefetchTargetGenerator, YOLOV3TargetMerger and YOLOV3Loss compute: sums, whose weight is the
number of pictures. Anchors whose boxes are right already, though it is another's, learn nothing about objects.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.config.values.sizes import Size
from mxtrain.data.fields import Array
from mxtrain.models.detectors import box_arrays
from mxtrain.models.detectors.coder import Candidates, Losses
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

# Of each level, from the coarsest on: how many pixels a cell has, and width and height of its anchors.
LEVELS = (
    (32, ((116, 90), (156, 198), (373, 326))),
    (16, ((30, 61), (62, 45), (59, 119))),
    (8, ((10, 13), (16, 30), (33, 23))),
)
RIGHT = 0.7  # the overlap of an answer with a box from which on it is right


class Targets(NamedTuple):
    """The right answers of the anchors of each picture: of those that have a box, else zeros; and the boxes."""

    has_box: Array  # (pictures, anchors)
    centres: Array  # (pictures, anchors, 2), in the cell
    stretches: Array  # (pictures, anchors, 2), logarithms
    shares: Array  # (pictures, anchors), how much a box counts: small ones more
    classes: Array  # (pictures, anchors)
    boxes: Sequence[Array]  # of each picture, (n, 4)


@dataclasses.dataclass(frozen=True, eq=False)
class YoloCoder:
    """The coder of a YOLOv3 for pictures of this size."""

    size: Size
    num_classes: int
    overlap: ClassVar[float] = 0.45
    mean_names: ClassVar[Sequence[str]] = ("object_loss", "center_loss", "scale_loss", "class_loss")

    def targets(self, boxes: Array) -> Targets:
        pictures = [box_arrays.real(each) for each in boxes]
        of_each: Any = map(np.stack, zip(*map(self._of_picture, pictures)))
        has_box, centres, stretches, shares, classes = of_each
        return Targets(has_box, centres, stretches, shares, classes, [each[:, :4] for each in pictures])

    def _of_picture(self, boxes: Array) -> tuple[Array, ...]:
        grid = self._grid()
        count = len(grid.cells)
        has_box, shares, classes = (np.zeros(count, np.float32) for _ in range(3))
        centres, stretches = (np.zeros((count, 2), np.float32) for _ in range(2))
        for box in boxes[boxes[:, box_arrays.FLAG] != box_arrays.CROWD]:
            x, y, wide, high = box_arrays.centres(box).tolist()
            place, step, anchor = self._anchor_of(x, y, wide, high)
            has_box[place], classes[place] = 1, box[box_arrays.CLASS]
            centres[place] = np.array([x, y]) / step - grid.cells[place]
            stretches[place] = np.log(np.maximum([wide, high], 1) / np.array(anchor))
            shares[place] = 2 - wide * high / (self.size.width * self.size.height)
        return has_box, centres, stretches, shares, classes

    def _anchor_of(self, x: float, y: float, wide: float, high: float) -> tuple[int, int, tuple[int, int]]:
        """Return the anchor of a box: its place among all, its cell's pixels, and its size."""
        every = [(level, number) for level in range(len(LEVELS)) for number in range(3)]
        finest_first = sorted(every, key=lambda each: -each[0])  # as GluonCV counts them, of equals
        level, number = max(finest_first, key=lambda each: _likeness(LEVELS[each[0]][1][each[1]], wide, high))
        before = 0
        for step, anchors in LEVELS[:level]:
            before += math.prod(_cells(self.size, step)) * len(anchors)
        step, anchors = LEVELS[level]
        rows, columns = _cells(self.size, step)
        row, column = min(int(y / step), rows - 1), min(int(x / step), columns - 1)
        return before + (row * columns + column) * len(anchors) + number, step, anchors[number]

    def losses(self, answer: NDArray, targets: Targets) -> Losses:
        place = answer.context
        *numbers, of_pictures = targets
        has_box, centres, stretches, shares, classes = (mx.nd.array(each, ctx=place) for each in numbers)
        raw_centres, raw_stretches, objects, logits = _split(answer)
        with mx.autograd.pause():
            learns = mx.nd.maximum(has_box, 1 - self._are_right(answer, of_pictures))
            counts = has_box.expand_dims(2) * shares.expand_dims(2)
            wanted = mx.nd.one_hot(classes, self.num_classes)
        of_classes = _cross_entropy(logits, wanted).sum(axis=2) * has_box
        by_name = {
            "object_loss": (_cross_entropy(objects.squeeze(axis=2), has_box) * learns).sum(axis=1),
            "center_loss": mx.nd.broadcast_mul(_cross_entropy(raw_centres, centres), counts).sum(axis=(1, 2)),
            "scale_loss": mx.nd.broadcast_mul(mx.nd.abs(raw_stretches - stretches), counts).sum(axis=(1, 2)),
            "class_loss": of_classes.sum(axis=1),
        }
        return Losses(by_name, len(of_pictures))

    def _are_right(self, answer: NDArray, of_pictures: Sequence[Array]) -> Any:
        """Return 1 for each answer whose box overlaps a box of its picture enough, else 0."""
        constants = {name: mx.nd.array(each, ctx=answer.context) for name, each in self.constants().items()}
        boxes = _decoded(mx.nd, answer, constants)
        rows = []
        for picture, wanted in zip(boxes, of_pictures):
            if len(wanted):
                ious = mx.nd.contrib.box_iou(picture, mx.nd.array(wanted, ctx=answer.context))
                rows.append(ious.max(axis=1) > RIGHT)
            else:
                rows.append(mx.nd.zeros(len(picture), ctx=answer.context))
        return mx.nd.stack(*rows)

    def constants(self) -> dict[str, Array]:
        return {name: each[None] for name, each in self._grid()._asdict().items()}

    def candidates(self, F: Any, answer: Any, constants: Mapping[str, Any]) -> Candidates:
        _, _, objects, logits = _split(answer, F)
        scores = F.broadcast_mul(F.sigmoid(logits), F.sigmoid(objects))
        return Candidates(scores, _decoded(F, answer, constants))

    def _grid(self) -> Grid:
        levels = [_grid_of(self.size, step, anchors) for step, anchors in LEVELS]
        return Grid(*map(np.concatenate, zip(*levels)))


class Grid(NamedTuple):
    """All anchors of a net, each with its cell."""

    cells: Array  # (anchors, 2): column and row
    anchors: Array  # (anchors, 2): width and height
    steps: Array  # (anchors, 1): pixels of a cell


def _grid_of(size: Size, step: int, anchors: Any) -> Grid:
    rows, columns = _cells(size, step)
    y, x = np.mgrid[:rows, :columns]
    cells = np.repeat(np.stack([x, y], axis=-1).reshape(-1, 2), len(anchors), axis=0).astype(np.float32)
    every = np.tile(np.array(anchors, np.float32), (rows * columns, 1))
    return Grid(cells, every, np.full((len(cells), 1), step, np.float32))


def _cells(size: Size, step: int) -> tuple[int, int]:
    """Return the rows and columns of a level, whose cells may reach beyond the picture."""
    return math.ceil(size.height / step), math.ceil(size.width / step)


def _likeness(anchor: tuple[int, int], wide: float, high: float) -> float:
    """Return the overlap of two boxes of these sizes around one centre."""
    shared = min(anchor[0], wide) * min(anchor[1], high)
    return shared / (anchor[0] * anchor[1] + wide * high - shared)


def _decoded(F: Any, answer: Any, constants: Mapping[str, Any]) -> Any:
    """Return the boxes of all anchors."""
    raw_centres, raw_stretches, *_ = _split(answer, F)
    centres = F.broadcast_add(F.sigmoid(raw_centres), constants["cells"])
    centres = F.broadcast_mul(centres, constants["steps"])
    half = F.broadcast_mul(F.exp(raw_stretches), constants["anchors"]) / 2
    return F.concat(centres - half, centres + half, dim=2)


def _split(answer: Any, F: Any = mx.nd) -> tuple[Any, Any, Any, Any]:
    """Return the parts of an answer: centres, stretches, whether there is an object, classes."""
    ends = ((0, 2), (2, 4), (4, 5), (5, None))
    centres, stretches, objects, logits = (
        F.slice_axis(answer, axis=2, begin=start, end=end) for start, end in ends
    )
    return centres, stretches, objects, logits


def _cross_entropy(logits: Any, targets: Any) -> Any:
    """Return the cross-entropy of each logit of a yes."""
    return mx.nd.relu(logits) - logits * targets + mx.nd.Activation(-mx.nd.abs(logits), act_type="softrelu")
