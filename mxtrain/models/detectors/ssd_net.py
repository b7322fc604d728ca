"""SSDs as nets: GluonCV's backbones and predictors, with one answer (pictures, anchors, classes + 1 + 4).

An anchor's numbers are the logits of the background and of each class, then its box's shift and stretch. Parameters
have the long names that GluonCV gives them, by which its files are taken (`pretrained.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from mxtrain import runtime
from mxtrain.config.components.zoo import detector_names, gluoncv_names
from mxtrain.models.detectors import ssd_anchors
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

nn = mx.gluon.nn
PREFIX = "ssd0_"


class Tapped(NamedTuple):
    """A classifier's features as an SSD has them: where they are cut, and what is appended."""

    backbone: str
    cuts: tuple[int, ...]  # behind these layers of its features
    filters: tuple[int, ...]  # of each level that is appended
    reduced: float = 1.0  # the share of filters that the layer before each has
    least: int = 128


_FILTERS = (512, 512, 256, 256)
_TAPPED = {
    "resnet18_v1": Tapped("resnet18_v1", (7, 8), _FILTERS),
    "resnet50_v1": Tapped("resnet50_v1", (7, 8), _FILTERS),
    "resnet101_v2": Tapped("resnet101_v2", (8, 11), _FILTERS),
    "resnet152_v2": Tapped("resnet152_v2", (7, 8, 11), _FILTERS),
    "mobilenet1.0": Tapped("mobilenet1.0", (69, 81), _FILTERS),
    "mobilenet1.0_lite": Tapped("mobilenet1.0", (69, 81), (512, 256, 256, 128), 0.5, 64),
    "mobilenet0.25": Tapped("mobilenet0.25", (69, 81), (256, 256, 128, 128)),
}


class Levels(mx.gluon.HybridBlock):
    """Maps of features, each of what follows on the one before: parts of a backbone, and what is appended."""

    def __init__(self, tapped: Tapped, **kwargs: Any):
        super().__init__(**kwargs)
        module, function = gluoncv_names.function_of(tapped.backbone)
        features = getattr(runtime.load_gluoncv_module(module), function)(pretrained=False).features
        self.levels = nn.HybridSequential(prefix="")
        for start, end in zip((0, *tapped.cuts), tapped.cuts):
            self.levels.add(features[start:end])
        for number, filters in enumerate(tapped.filters):
            self.levels.add(_appended(number, filters, max(tapped.least, round(filters * tapped.reduced))))

    def hybrid_forward(self, F: Any, x: Any) -> list[Any]:
        maps = []
        for level in self.levels:
            x = level(x)
            maps.append(x)
        return maps


def _appended(number: int, filters: int, num_reduced: int) -> Block:
    """Return the layers of a level behind the backbone, with the names that GluonCV gives them."""
    level, init = nn.HybridSequential(prefix=""), mx.init.Xavier("gaussian", "out", magnitude=2)
    for name, shape in (("trans_", (num_reduced, 1)), ("", (filters, 3, 2, 1))):
        prefix = f"{PREFIX}expand_{name}"
        level.add(
            nn.Conv2D(*shape, use_bias=False, weight_initializer=init, prefix=f"{prefix}conv{number}_"),
            nn.BatchNorm(epsilon=1e-3, scale=False, prefix=f"{prefix}bn{number}_"),
            nn.Activation("relu"),
        )
    return level


class Ssd(mx.gluon.HybridBlock):
    """A net of maps of features, each with predictors of classes and boxes."""

    def __init__(
        self, features: Block, num_anchors: Sequence[int], num_classes: int, kernel: int, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.features = features
        self._num_classes = num_classes
        with self.name_scope():
            self.class_predictors = nn.HybridSequential(prefix="")
            self.box_predictors = nn.HybridSequential(prefix="")
            for number in num_anchors:
                self.class_predictors.add(_predictor(number * (num_classes + 1), kernel))
                self.box_predictors.add(_predictor(number * 4, kernel))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        levels = list(zip(self.features(x), self.class_predictors, self.box_predictors))
        sides = (
            [F.flatten(F.transpose(predictor(each), (0, 2, 3, 1))) for each, predictor in of_side]
            for of_side in (
                [(each, classes) for each, classes, _ in levels],
                [(each, boxes) for each, _, boxes in levels],
            )
        )
        classes, boxes = (F.concat(*side, dim=1) for side in sides)
        logits = F.reshape(classes, (0, -1, self._num_classes + 1))
        return F.concat(logits, F.reshape(boxes, (0, -1, 4)), dim=2)


def _predictor(channels: int, kernel: int) -> Block:
    predictor = runtime.load_gluoncv_module("gluoncv.nn.predictor").ConvPredictor
    block: Block = predictor(channels, kernel=(kernel, kernel), pad=(kernel // 2, kernel // 2))
    return block


def build(name: str, num_classes: int) -> Block:
    """Return the SSD called `name`, not initialised."""
    spec = ssd_anchors.spec_of(name)
    with mx.name.NameManager():  # so that names do not depend on what has been built before
        return _built(name, ssd_anchors.num_per_cell(spec), num_classes, 1 if spec.is_lite else 3)


def _built(name: str, num_anchors: Sequence[int], num_classes: int, kernel: int) -> Block:
    backbone = "_".join(name.split("_")[2:-1])
    if backbone in _TAPPED:
        return Ssd(Levels(_TAPPED[backbone]), num_anchors, num_classes, kernel, prefix=PREFIX)
    module, function = detector_names.function_of(name)
    keywords = {} if not name.endswith("custom") else {"classes": ["one"]}
    whole = getattr(runtime.load_gluoncv_module(module), function)(
        pretrained_base=False, anchor_alloc_size=1, **keywords
    )
    return Ssd(whole.features, num_anchors, num_classes, kernel, prefix=PREFIX)


def cells(net: Block, height: int, width: int) -> list[tuple[int, int]]:
    """Return rows and columns of each map of features of an SSD for pictures of this size; ValueError if too small."""
    maps = mx.sym.Group(net.features(mx.sym.var("data")))
    try:
        _, shapes, _ = maps._infer_shape_impl(False, data=(1, 3, height, width))  # which prints nothing
    except mx.base.MXNetError:
        raise ValueError("a map of features would have no pixel") from None
    return [shape[2:] for shape in shapes]
