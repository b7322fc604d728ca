"""Detection: boxes with classes in each picture.

Owns what a detector means to training. Its net, and what is between its answers and boxes, are those of
`models/detectors/`; labels and pictures are `data/boxes/`'s.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Collection, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import nets as net_names
from mxtrain.config.values import sizes
from mxtrain.core import plain_text
from mxtrain.data import image_fields, input_files
from mxtrain.data.augment import normalization
from mxtrain.data.boxes import box_checks, box_drawing, box_fields
from mxtrain.data.boxes.box_fields import BoxReader
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.models.contract import Contract, pictures_in_words
from mxtrain.tasks import task_flags
from mxtrain.tasks.classes import TaskOfClasses
from mxtrain.tasks.inputs.net_inputs import NetInputs, Pictures
from mxtrain.tasks.metrics.detection_report import DetectionReport
from mxtrain.tasks.task import Description, Outcome, Score

if TYPE_CHECKING:
    from mxtrain.models.detectors.coder import BoxCoder
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net

WORST_SHOWN, WORST_BOXES = 5, 50  # detections and boxes of a sample that an evaluation tells


class Detection(TaskOfClasses):
    """The task; its description has `class_names`."""

    flags = (task_flags.OF_PICTURES - {"mixup", "cutmix", "val_resize", "cache", "channels"}) | {
        *("model", "num_classes")
    }
    nets = net_names.that_take(net_names.BOXES)
    unit = "images"
    suffixes = input_files.PICTURES
    takes_names = True
    own_views = ("flip",)

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        image_fields.refuse_arrays(train)
        box_checks.refuse_mixing(box_fields.transform_of(run, is_training=True), train)
        names = box_checks.class_names(train, val, run.data.num_classes)
        return {"class_names": names, **normalization.described(run, train)}

    @property
    def fields(self) -> Sequence[Field]:
        return box_fields.fields_of(self.run)

    def check(self, dataset: Dataset) -> None:
        box_checks.check(dataset, self.class_names)

    def summary(self) -> str:
        return f"boxes of {len(self.class_names)} classes"

    def reader(self, is_training: bool) -> BoxReader:
        return box_fields.reader_of(self.run, self.description, len(self.class_names), is_training)

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        """Return the pictures as the net sees them, with their boxes drawn."""
        normalisation = normalization.of_description(self.run.data, self.description)
        seen = []
        for pixels, boxes in zip(image_fields.restored(arrays["data"], normalisation), arrays["boxes"]):
            boxes = boxes[boxes[:, 4] >= 0]
            numbers = boxes[:, 4].astype(int).tolist()
            names = [self.class_names[number] for number in numbers]
            drawn = box_drawing.drawn(pixels, boxes[:, :4], numbers, names)
            seen.append((plain_text.listed(list(dict.fromkeys(names))) or "no box", drawn))
        return seen

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        return box_fields.record_of(key, item, user)

    def contract(self) -> Contract:
        data = self.run.data
        return Contract(
            inputs=(image_fields.shape_of(data),),
            answer=None,
            noun="picture",
            takes=pictures_in_words(data.image_size, data.channels),
            expects="it has to be a detector that GluonCV has",
        )

    def build_net(self) -> Block:
        from mxtrain.models.detectors import detectors

        detectors.check(self.run.model.model, self.size, self.run.layout.devices)
        return detectors.build(self.run.model.model, len(self.class_names))

    def training_forward(self, teacher: Block | None) -> DetectionForward:
        return DetectionForward(self.coder, self._net_inputs)

    def plain_forward(self) -> DetectionForward:
        return DetectionForward(self.coder, self._net_inputs, self.detected)

    def viewed_forward(self, views: Collection[str]) -> DetectionForward:
        return DetectionForward(
            self.coder, self._net_inputs, self.detected, self._detected_in_both if views else None
        )

    @property
    def step_means(self) -> Sequence[str]:
        return self.coder.mean_names

    def report(self) -> DetectionReport:
        return DetectionReport(len(self.class_names), box_fields.transform_of(self.run))

    @property
    def score(self) -> Score:
        return Score("map")

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        """Return the sample's boxes, and its likeliest detections, in pixels of the original picture.

        A box is a list of its class and four numbers, a detection has its score behind the class.
        """
        if output is None:
            return {}
        offsets, factors = box_fields.in_originals(arrays["size"][None], box_fields.transform_of(self.run))
        boxes, detections = arrays["boxes"], output[output[:, 0] >= 0][:WORST_SHOWN].astype(np.float64)
        boxes = boxes[boxes[:, 4] >= 0][:WORST_BOXES].astype(np.float64)
        own, other = (
            ((each - offsets) * factors).round(1).tolist() for each in (boxes[:, :4], detections[:, 2:])
        )
        return {
            "boxes": [[int(row[4]), *corners] for row, corners in zip(boxes, own)],
            "detections": [
                [int(row[0]), round(float(row[1]), 4), *corners] for row, corners in zip(detections, other)
            ],
        }

    def inputs_of(self, source: object) -> dict[str, Any]:
        return box_fields.input_of(source, self.run, self.description)

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return detections in pixels of the pictures as they came."""
        from mxtrain.models.detectors import detections

        answer = net(*self._net_inputs(arrays)).astype("float32", copy=False)
        places = box_fields.in_originals(arrays["size"].asnumpy(), box_fields.transform_of(self.run))
        moved: NDArray = detections.moved(self.detected(answer), *places)
        return moved

    def shown(self, output: Array) -> dict[str, Any]:
        """Return the detections, the likeliest first, each with its class, its score and its box."""
        return self._shown(output)

    def in_words(self, shown: Mapping[str, Any]) -> str:
        found = [
            f"{each['class']} {each['score']:.3f} at {' '.join(format(place, '.0f') for place in each['box'])}"
            for each in shown["detections"]
        ]
        return ", ".join(found) or "nothing"

    def _shown(self, output: Array) -> dict[str, Any]:
        names = self.class_names
        rows = output[output[:, 0] >= 0].astype(np.float64).tolist()
        return {
            "detections": [
                {"class": names[int(number)], "score": score, "box": box} for number, score, *box in rows
            ]
        }

    @functools.cached_property
    def coder(self) -> BoxCoder:
        """The way between boxes and the answers of the net."""
        from mxtrain.models.detectors import detectors

        return detectors.coder(self.run.model.model, len(self.class_names), self.size)

    @property
    def size(self) -> sizes.Size:
        """Height and width of the pictures that the net sees."""
        return sizes.height_and_width(self.run.data.image_size)

    @property
    def _net_inputs(self) -> NetInputs:
        return Pictures(normalization.of_description(self.run.data, self.description))

    def detected(self, answer: NDArray) -> NDArray:
        """Return what the net's answer says."""
        from mxtrain.models.detectors import detections

        found: NDArray = detections.of_answer(self.coder, answer, self.size)
        return found

    def _detected_in_both(self, answer: NDArray, mirrored: NDArray) -> NDArray:
        """Return what the net's answers to pictures and to these from right to left say."""
        from mxtrain.models.detectors import detections

        found: NDArray = detections.of_both(self.coder, answer, mirrored, self.size)
        return found


@dataclasses.dataclass(frozen=True)
class DetectionForward:
    """The losses of a micro-batch, and its detections where an evaluation asks for them.

    What a net should answer is worked out on the host, while the device computes what it does answer.
    """

    coder: BoxCoder
    inputs: NetInputs
    detected: Any = None
    detected_in_both: Any = None  # where pictures are shown from right to left too

    def __call__(self, net: Net, arrays: NDArrays) -> Outcome:
        # The loss is computed in float32 whatever the net runs in.
        answer = net(*self.inputs(arrays)).astype("float32", copy=False)
        targets = self.coder.targets(arrays["boxes"].asnumpy())
        by_name, weight, others = self.coder.losses(answer, targets)
        means: dict[str, Any] = {
            **others,
            **{name: (losses.sum(), weight) for name, losses in by_name.items()},
        }
        total: Any = functools.reduce(lambda one, other: one + other, by_name.values())
        return Outcome(total, weight, means, self._output(net, arrays, answer))

    def _output(self, net: Net, arrays: NDArrays, answer: NDArray) -> NDArray | None:
        if self.detected_in_both is not None:
            mirrored = {**arrays, "data": arrays["data"].flip(axis=3)}
            other = net(*self.inputs(mirrored)).astype("float32", copy=False)
            both: NDArray = self.detected_in_both(answer, other)
            return both
        return None if self.detected is None else self.detected(answer)
