"""Segmentation: a class for each pixel of a picture.

Owns what masks mean to training. Nets are `models/segmenters/`'s; masks and pictures are `data/masks/`'s.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import TYPE_CHECKING, Any, Collection, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import nets as net_names
from mxtrain.config.values import sizes
from mxtrain.core import plain_text
from mxtrain.core.errors import UsageError
from mxtrain.data import image_fields, input_files
from mxtrain.data.augment import normalization
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.masks import mask_checks, mask_drawing, mask_fields, mask_format
from mxtrain.data.masks.mask_fields import MaskReader
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.models.contract import Contract, pictures_in_words
from mxtrain.tasks import task_flags
from mxtrain.tasks.classes import TaskOfClasses, described
from mxtrain.tasks.inputs.net_inputs import NetInputs, Pictures
from mxtrain.tasks.metrics.segmentation_report import (
    ReportOfOriginals,
    SegmentationReport,
    counts_of,
    inside,
    numbers_and_record,
)
from mxtrain.tasks.task import Description, Outcome, Score

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net

MOST_TAKEN = 5  # pairs of classes of a sample that an evaluation tells


class Segmentation(TaskOfClasses):
    """The task; its description has `class_names`, and `class_weights` if they count unlike."""

    flags = (task_flags.OF_PICTURES - {"mixup", "cutmix", "val_resize", "cache", "channels"}) | {
        *("model", "num_classes", "class_weights", "aux_weight")
    }
    nets = net_names.that_take(net_names.PIXELS)
    unit = "images"
    suffixes = input_files.PICTURES
    takes_names = True
    own_views = ("flip", "scales", "windows")
    step_means = ("pixel_accuracy",)
    score = Score("miou")

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        image_fields.refuse_arrays(train)
        names = mask_checks.class_names(train, val, run.data.num_classes)
        weights = mask_checks.weights(run.model.class_weights, train, names)
        return {**described(names, weights), **normalization.described(run, train)}

    @property
    def fields(self) -> Sequence[Field]:
        return mask_fields.fields_of(self.run)

    def check(self, dataset: Dataset) -> None:
        mask_checks.check(dataset, self.class_names)

    def summary(self) -> str:
        return f"masks of {len(self.class_names)} classes"

    def reader(self, is_training: bool) -> MaskReader:
        return mask_fields.reader_of(self.run, self.description, len(self.class_names), is_training)

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        """Return the pictures as the net sees them, with the colours of their classes."""
        normalisation = normalization.of_description(self.run.data, self.description)
        seen = []
        for pixels, mask in zip(image_fields.restored(arrays["data"], normalisation), arrays["mask"]):
            names = [self.class_names[number] for number in np.unique(mask).tolist() if number != IGNORED]
            drawn = mask_drawing.drawn(pixels, mask, len(self.class_names))
            seen.append((plain_text.listed(names) or "nothing that counts", drawn))
        return seen

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        return mask_fields.record_of(key, item, user)

    def contract(self) -> Contract:
        data = self.run.data
        colours, *size = image_fields.shape_of(data)
        num_heads = 2 if self.run.model.aux_weight else 1
        return Contract(
            inputs=((colours, *size),),
            answer=None,
            noun="picture",
            takes=pictures_in_words(data.image_size, data.channels),
            expects="it has to give each class a score, of any height and width",
            loss_shape=(num_heads * len(self.class_names), *size),
        )

    def build_net(self) -> Block:
        from mxtrain.models.nets import zoo
        from mxtrain.models.segmenters import segmenters

        name, num_classes = self.run.model.model, len(self.class_names)
        if name not in self.nets:
            return zoo.user_net(name, self.objects, num_classes=num_classes)
        return segmenters.build(name, num_classes, has_auxiliary=self.run.model.aux_weight > 0)

    def training_forward(self, teacher: Block | None) -> SegmentationForward:
        return SegmentationForward(
            len(self.class_names),
            self._net_inputs,
            self.run.model.aux_weight,
            self.description.get("class_weights"),
        )

    def plain_forward(self) -> SegmentationForward:
        return SegmentationForward(len(self.class_names), self._net_inputs)

    def viewed_forward(self, views: Collection[str]) -> SegmentationForward:
        window = sizes.height_and_width(self.run.data.image_size)
        return dataclasses.replace(self.plain_forward(), views=tuple(views), window=window)

    def report(self) -> SegmentationReport:
        return SegmentationReport(len(self.class_names))

    def judging_originals(self) -> SegmentationOfOriginals:
        return SegmentationOfOriginals(self.run, self.description, self.objects)

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        """Return the IoU of each class in a sample's picture, by the class's number, and what was taken for what."""
        if output is None:
            return {}
        numbers, record = numbers_and_record(counts_of(arrays["mask"], output, len(self.class_names)))
        ious = {number: round(iou, 4) for number, iou in enumerate(record["iou"]) if iou is not None}
        return {
            "pixel_accuracy": numbers["pixel_accuracy"],
            "ious": [list(each) for each in ious.items()],
            "taken_for": record["confusion"][:MOST_TAKEN],
            "answered": base64.b64encode(mask_format.encoded(self._inside(output, arrays["size"]))).decode(),
        }

    def inputs_of(self, source: object) -> dict[str, Any]:
        return mask_fields.input_of(source, self.run, self.description)

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return the class of each pixel that the net sees, IGNORED where it sees none of the picture."""
        from mxtrain.models.segmenters import views
        from mxtrain.runtime import mx

        forward = self.plain_forward()
        found = views.classes(forward.logits(net, self._net_inputs(arrays)[0]))
        rows = [self._inside(one, own) for one, own in zip(found.asnumpy(), arrays["size"].asnumpy())]
        answer: NDArray = mx.nd.array(np.stack(rows), ctx=found.context)
        return answer

    def _inside(self, classes: Array, own: Array) -> Array:
        """Return the classes of pixels, IGNORED where a picture of this height and width is none of them."""
        size = sizes.Size(*map(int, own))
        mask: Array = np.full(classes.shape, IGNORED, np.uint8)
        inside(mask, size)[...] = inside(classes, size)
        return mask

    def shown(self, output: Array) -> dict[str, Any]:
        """Return the classes in a picture with their shares of it, the largest first, and the mask."""
        mask = output.astype(np.uint8)
        of_picture = mask_format.without_border(mask)
        counts = np.bincount(of_picture.ravel(), minlength=len(self.class_names))
        order = np.argsort(-counts, kind="stable")
        return {
            "areas": [
                {"class": self.class_names[number], "share": float(counts[number] / of_picture.size)}
                for number in order.tolist()
                if counts[number]
            ],
            "mask": of_picture,
        }

    def in_words(self, shown: Mapping[str, Any]) -> str:
        return ", ".join(f"{each['class']} {each['share']:.1%}" for each in shown["areas"])

    @property
    def _net_inputs(self) -> NetInputs:
        return Pictures(normalization.of_description(self.run.data, self.description))


class SegmentationOfOriginals(Segmentation):
    """The task where masks are judged in the sizes of the originals."""

    @property
    def fields(self) -> Sequence[Field]:
        return *mask_fields.fields_of(self.run), mask_fields.ORIGINAL

    def reader(self, is_training: bool) -> MaskReader:
        return dataclasses.replace(super().reader(is_training), keeps_original=True)

    def report(self) -> SegmentationReport:
        return ReportOfOriginals(len(self.class_names))


@dataclasses.dataclass(frozen=True)
class SegmentationForward:
    """The losses of a micro-batch: cross-entropy over all pixels that count, of the net and of its auxiliary head.

    A pixel counts as many as its class says. The output is the class of each pixel, by one view or by several.
    """

    num_classes: int
    inputs: NetInputs
    aux_weight: float = (
        0.0  # of the auxiliary head's loss; 0 leaves it out, whether there is such a head or not
    )
    class_weights: Sequence[float] | None = None
    views: tuple[str, ...] = ()
    window: sizes.Size | None = None  # that the net was trained on

    def __call__(self, net: Net, arrays: NDArrays) -> Outcome:
        from mxtrain.models.segmenters.upsampling import pixels_like
        from mxtrain.runtime import mx

        data, mask = self.inputs(arrays)[0], arrays["mask"]
        answer = self._answer(net, data)
        on_host = mask.asnumpy()
        is_known, counts = on_host != IGNORED, self._counts()[on_host]
        label = mx.nd.array(np.where(is_known, on_host, 0), ctx=data.context, dtype="float32")
        weights = mx.nd.array(counts, ctx=data.context)
        losses: Any = 0
        heads = [1.0, self.aux_weight] if self.aux_weight and answer.shape[1] > self.num_classes else [1.0]
        for number, share in enumerate(heads):
            begin = number * self.num_classes
            low = answer.slice_axis(axis=1, begin=begin, end=begin + self.num_classes)
            logits = pixels_like(mx.nd, low, data)
            of_pixels = -mx.nd.pick(mx.nd.log_softmax(logits, axis=-1), label, axis=-1) * weights
            losses = losses + share * of_pixels.sum(axis=2).sum(axis=1)
            if not number:
                found = logits.argmax(axis=-1)
        with mx.autograd.pause():
            is_right = (found == label) * mx.nd.array(is_known, ctx=data.context)
            means = {"pixel_accuracy": (is_right.sum(axis=2).sum(), float(is_known.sum()))}
            output = self._seen(net, data) if self.views else found
        return Outcome(losses, float(counts.sum(dtype=np.float64)), means, output)

    def _counts(self) -> Array:
        """Return how much a pixel counts, by the number in its mask."""
        counts: Array = np.zeros(IGNORED + 1, np.float32)
        counts[: self.num_classes] = 1 if self.class_weights is None else self.class_weights
        return counts

    def logits(self, net: Net, data: NDArray) -> NDArray:
        """Return what a net says of each pixel of pictures."""
        from mxtrain.models.segmenters.upsampling import upsampled_like
        from mxtrain.runtime import mx

        own = self._answer(net, data).slice_axis(axis=1, begin=0, end=self.num_classes)
        logits: NDArray = upsampled_like(mx.nd, own, data)
        return logits

    def _answer(self, net: Net, data: NDArray) -> NDArray:
        """Return the net's answer; UsageError for a user's net whose answer has another shape."""
        answer: NDArray = net(data).astype("float32", copy=False)
        num_scores = answer.shape[1] if answer.ndim == 4 else 0
        if num_scores not in (self.num_classes, 2 * self.num_classes):
            raise UsageError(
                f"--model: the net answers with an array of shape {answer.shape}; it has to give (pictures, "
                f"{self.num_classes}, height, width), a score of each class, of any height and width, or twice as many "
                "scores, the second of an auxiliary head"
            )
        return answer

    def _seen(self, net: Net, data: NDArray) -> NDArray:
        from mxtrain.models.segmenters import views

        assert self.window is not None, "a view has the size of a window"
        return views.classes_in_views(lambda seen: self.logits(net, seen), data, self.window, self.views)
