"""CenterNets between boxes and answers: an object is a peak in the heat map of its class, with a size and a shift.

Owns what GluonCV's CenterNetTargetGenerator, HeatmapFocalLoss and MaskedL1Loss compute: sums, whose weight is the
number of centres. Nothing is suppressed among detections but what is no peak.
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

STEP = 4  # pixels of a cell
STEPS = 32  # pixels that a side has to be a multiple of
OVERLAP = 0.7  # that a box still has with one whose corners are moved by the radius
SIZE_SHARE, SHIFT_SHARE = 0.1, 1.0  # of the losses
LEAST = 1e-4  # of heat, and of what is left to 1


class Targets(NamedTuple):
    """The right answers of the cells of each picture."""

    heat: Array  # (pictures, cells, classes)
    sizes: Array  # (pictures, cells, 2): width and height in cells
    shifts: Array  # (pictures, cells, 2): of the centre from its cell's corner
    has_centre: Array  # (pictures, cells, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class CenterNetCoder:
    """The coder of a CenterNet for pictures of this size."""

    size: Size
    num_classes: int
    overlap: ClassVar[float] = 1.0
    mean_names: ClassVar[Sequence[str]] = ("heat_loss", "size_loss", "shift_loss")

    @property
    def cells(self) -> Size:
        """The rows and columns of the map."""
        return Size(self.size.height // STEP, self.size.width // STEP)

    def targets(self, boxes: Array) -> Targets:
        of_each = [self._of_picture(box_arrays.real(each)) for each in boxes]
        return Targets(*map(np.stack, zip(*of_each)))

    def _of_picture(self, boxes: Array) -> tuple[Array, ...]:
        rows, columns = self.cells
        heat = np.zeros((rows, columns, self.num_classes), np.float32)
        sizes, shifts = np.zeros((2, rows, columns, 2), np.float32)
        has_centre = np.zeros((rows, columns, 1), np.float32)
        for box in boxes[boxes[:, box_arrays.FLAG] != box_arrays.CROWD]:
            x, y, wide, high = (box_arrays.centres(box) / STEP).tolist()
            if wide <= 0 or high <= 0:
                continue
            column, row = min(int(x), columns - 1), min(int(y), rows - 1)
            draw(heat[:, :, int(box[box_arrays.CLASS])], row, column, radius_of(high, wide))
            sizes[row, column], shifts[row, column] = (wide, high), (x - column, y - row)
            has_centre[row, column] = 1
        return tuple(each.reshape(rows * columns, -1) for each in (heat, sizes, shifts, has_centre))

    def losses(self, answer: NDArray, targets: Targets) -> Losses:
        heat, sizes, shifts, has_centre = (mx.nd.array(each, ctx=answer.context) for each in targets)
        raw_heat, raw_sizes, raw_shifts = self._split(answer)
        found = mx.nd.clip(mx.nd.sigmoid(raw_heat), LEAST, 1 - LEAST)
        with mx.autograd.pause():
            is_centre, far = heat == 1, (1 - heat) ** 4
        of_heat = mx.nd.where(
            is_centre, mx.nd.log(found) * (1 - found) ** 2, mx.nd.log(1 - found) * found**2 * far
        )
        apart = [
            mx.nd.broadcast_mul(mx.nd.abs(raw - wanted), has_centre).mean(axis=2).sum(axis=1)
            for raw, wanted in ((raw_sizes, sizes), (raw_shifts, shifts))
        ]
        by_name = {
            "heat_loss": -of_heat.sum(axis=(1, 2)),
            "size_loss": SIZE_SHARE * apart[0],
            "shift_loss": SHIFT_SHARE * apart[1],
        }
        return Losses(by_name, float((targets.heat == 1).sum()))

    def constants(self) -> dict[str, Array]:
        y, x = np.mgrid[: self.cells.height, : self.cells.width]
        return {"corners": np.stack([x, y], axis=-1).reshape(1, -1, 2).astype(np.float32)}

    def candidates(self, F: Any, answer: Any, constants: Mapping[str, Any]) -> Candidates:
        raw_heat, sizes, shifts = self._split(answer, F)
        maps = F.reshape(F.transpose(F.sigmoid(raw_heat), (0, 2, 1)), (0, 0, *self.cells))
        highest = F.Pooling(maps, kernel=(3, 3), pad=(1, 1), pool_type="max")
        peaks = maps * F.broadcast_equal(highest, maps)
        centres = F.broadcast_add(shifts, constants["corners"])
        boxes = F.concat(centres - sizes / 2, centres + sizes / 2, dim=2) * STEP
        return Candidates(F.transpose(F.reshape(peaks, (0, 0, -1)), (0, 2, 1)), boxes)

    def _split(self, answer: Any, F: Any = mx.nd) -> tuple[Any, Any, Any]:
        count = self.num_classes
        ends = ((0, count), (count, count + 2), (count + 2, None))
        heat, sizes, shifts = (F.slice_axis(answer, axis=2, begin=start, end=end) for start, end in ends)
        return heat, sizes, shifts


def radius_of(high: float, wide: float) -> int:
    """Return how many cells from its centre a box of this size has heat, as CornerNet has it and GluonCV keeps it."""
    high, wide = math.ceil(high), math.ceil(wide)
    total, area = high + wide, high * wide
    roots = (
        total + math.sqrt(total**2 - 4 * area * (1 - OVERLAP) / (1 + OVERLAP)),
        2 * total + math.sqrt(4 * total**2 - 16 * area * (1 - OVERLAP)),
        -2 * OVERLAP * total + math.sqrt((2 * OVERLAP * total) ** 2 + 16 * OVERLAP * (1 - OVERLAP) * area),
    )
    return max(0, int(min(roots) / 2))


def draw(heat: Array, row: int, column: int, radius: int) -> None:
    """Let a map (rows, columns) be at least as hot as a bell around this cell, whose top is 1."""
    rows, columns = (
        np.arange(max(0, middle - radius), min(length, middle + radius + 1))
        for middle, length in zip((row, column), heat.shape)
    )
    squares = (rows[:, None] - row) ** 2 + (columns[None] - column) ** 2
    bell = np.exp(-squares / (2 * ((2 * radius + 1) / 6) ** 2))
    bell[bell < np.finfo(float).eps] = 0
    part = heat[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    np.maximum(part, bell, out=part, casting="same_kind")
