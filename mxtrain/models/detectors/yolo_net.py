"""YOLOv3s as nets: GluonCV's layers, with one answer (pictures, anchors, 5 + classes).

An anchor's numbers are the place of its box in the cell, how it is stretched, whether there is an object, and a logit
of each class. Levels come from the coarsest to the finest. Parameters are where GluonCV has them.
"""

from __future__ import annotations

import re
from typing import Any

from mxtrain import runtime
from mxtrain.config.components.zoo import detector_names
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

nn = mx.gluon.nn


class Output(mx.gluon.HybridBlock):
    """The last layer of a level."""

    def __init__(self, prediction: Block, **kwargs: Any):
        super().__init__(**kwargs)
        self.prediction = prediction

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.prediction(x)


class Yolo(mx.gluon.HybridBlock):
    """A net of stages, and a block and an output for the map of each, of which coarse ones go on into finer ones."""

    def __init__(self, theirs: Any, num_classes: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.stages, self.transitions, self.yolo_blocks = (
            theirs.stages,
            theirs.transitions,
            theirs.yolo_blocks,
        )
        self._num_numbers = 5 + num_classes
        self.yolo_outputs = nn.HybridSequential(prefix="")
        for output in theirs.yolo_outputs:
            self.yolo_outputs.add(Output(output.prediction))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        answers = []
        for number, (block, output) in enumerate(zip(self.yolo_blocks, self.yolo_outputs)):
            x, tip = block(x)
            rows = F.transpose(output(tip), (0, 2, 3, 1))
            answers.append(F.reshape(rows, (0, -1, self._num_numbers)))
            if number < len(maps) - 1:
                finer = maps[-2 - number]
                x = F.UpSampling(self.transitions[number](x), scale=2, sample_type="nearest")
                x = F.concat(F.slice_like(x, finer, axes=(2, 3)), finer, dim=1)
        return F.concat(*answers, dim=1)


def build(name: str, num_classes: int) -> Block:
    """Return the YOLOv3 called `name`, not initialised."""
    module, function = detector_names.function_of(re.sub("_(voc|coco)$", "_custom", name))
    with mx.name.NameManager():  # so that names do not depend on what has been built before
        make = getattr(runtime.load_gluoncv_module(module), function)
        theirs = make(classes=[""] * num_classes, pretrained_base=False)
        return Yolo(theirs, num_classes, prefix="yolo0_")
