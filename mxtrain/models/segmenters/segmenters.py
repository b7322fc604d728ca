"""Nets that give each pixel a class, by GluonCV's names: GluonCV's layers, with one answer.

The answer is (pictures, outputs, rows, columns), logits of the classes at an eighth of the pictures' sides, or what the
net's decoder has; where the net was built with an auxiliary head, that one's logits are behind them on the second axis.
So it is whether the net trains or not, and whoever asks (docs/adr/0058). Pictures of any size go through one net.
Parameters have GluonCV's names, by which its files are taken.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Mapping, Sequence

from mxtrain import runtime
from mxtrain.config.components.zoo import segmenter_names
from mxtrain.config.components.zoo.segmenter_names import DEEPLAB, DEEPLAB_PLUS, FAST, FCN, PSP, WIDE_PLUS
from mxtrain.models.parameters import weights
from mxtrain.models.segmenters.upsampling import upsampled_like
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

BINS = (1, 2, 3, 6)  # of a pyramid


def build(name: str, num_classes: int, has_auxiliary: bool) -> Block:
    """Return the net called `name`, not initialised; DeepLabV3+ of a wide ResNet has no auxiliary head."""
    module, class_name = segmenter_names.class_of(name)
    theirs: Any = getattr(runtime.load_gluoncv_module(module), class_name)
    backbone = segmenter_names.backbone_of(name)
    keywords = {"backbone": backbone} if backbone else {}
    with mx.name.NameManager(), contextlib.redirect_stdout(None):  # names as of a first net; PSPNet prints
        has_auxiliary = has_auxiliary and takes_auxiliary(name)
        net: Any = theirs(num_classes, aux=has_auxiliary, pretrained_base=False, **keywords)
    own = _FORWARDS[segmenter_names.family_of(name)]
    for block in weights.layers(net, mx.gluon.HybridBlock):
        forward = own.get("net" if block is net else type(block).__name__)
        if forward is not None:
            block.__class__ = type(type(block).__name__, (type(block),), {"hybrid_forward": forward})
    for parameter in net.collect_params().values():
        parameter.lr_mult = 1.0  # GluonCV's are 10 in heads, which is for --lr-scale to say
        parameter._data = parameter._grad = parameter._ctx_list = parameter._ctx_map = None  # it drew some
        parameter._deferred_init = ()
    net.other_names = functools.partial(_of_classifier, net)  # for --pretrained
    built: Block = net
    return built


def takes_auxiliary(name: str) -> bool:
    """Return whether a net can have an auxiliary head."""
    return segmenter_names.family_of(name) != WIDE_PLUS


def _of_classifier(net: Block) -> Sequence[Mapping[str, str]]:
    """Return the ways in which a file may name a net's parameters: as the net, which is as its backbone, does."""
    return ({name: name for name in weights.named_parameters(net)},)


# The forward passes, of GluonCV's blocks, whose layers they use.


def _of_resnet(self: Any, F: Any, x: Any) -> Any:
    middle, last = self.base_forward(x)
    return _together(self, F, self.head(last), middle)


def _of_xception(self: Any, F: Any, x: Any) -> Any:
    early, middle, last = self.base_forward(x)
    logits = self.head(last, early)
    if not self.aux:
        return logits
    return F.concat(logits, upsampled_like(F, self.auxlayer(middle), logits), dim=1)


def _of_wide_resnet(self: Any, F: Any, x: Any) -> Any:
    early = self.mod2(self.pool2(self.mod1(x)))
    x = self.mod3(self.pool3(early))
    for part in (self.mod4, self.mod5, self.mod6, self.mod7):
        x = part(x)
    return self.head(x, early)


def _of_fast(self: Any, F: Any, x: Any) -> Any:
    early = self.learning_to_downsample(x)
    fused = self.feature_fusion(early, self.global_feature_extractor(early))
    return _together(self, F, self.classifier(fused), early)


def _together(net: Any, F: Any, logits: Any, middle: Any) -> Any:
    """Return the net's logits, with those of its auxiliary head, over features in its middle, behind them."""
    return F.concat(logits, net.auxlayer(middle), dim=1) if net.aux else logits


def _pyramid(self: Any, F: Any, x: Any) -> Any:
    maps = [x]
    for bins, layers in zip(BINS, (self.conv1, self.conv2, self.conv3, self.conv4)):
        pooled = F.contrib.AdaptiveAvgPooling2D(x, output_size=bins)
        maps.append(upsampled_like(F, layers(pooled), x))
    together = F.concat(*maps, dim=1)
    return self.out(together) if hasattr(self, "out") else together


def _pooling(self: Any, F: Any, x: Any) -> Any:
    return F.broadcast_like(self.gap(x), x, lhs_axes=(2, 3), rhs_axes=(2, 3))


def _fusion(self: Any, F: Any, early: Any, late: Any) -> Any:
    late = self.dwconv(upsampled_like(F, late, early))
    return self.relu(self.bn_high(self.conv_higher_res(early)) + self.bn(self.conv_lower_res(late)))


def _decoder(self: Any, F: Any, x: Any, early: Any) -> Any:
    early = self.c1_block(early)
    return self.block(F.concat(upsampled_like(F, self.aspp(x), early), early, dim=1))


def _wide_decoder(self: Any, F: Any, x: Any, early: Any) -> Any:
    early = self.c1_block(early)
    return self.block(F.concat(early, upsampled_like(F, self.aspp(x), early), dim=1))


# By family: of the net itself, and of blocks in it by the names of their classes.
_FORWARDS: dict[str, dict[str, Any]] = {
    FCN: {"net": _of_resnet},
    PSP: {"net": _of_resnet, "_PyramidPooling": _pyramid},
    DEEPLAB: {"net": _of_resnet, "_AsppPooling": _pooling},
    DEEPLAB_PLUS: {"net": _of_xception, "_AsppPooling": _pooling, "_DeepLabHead": _decoder},
    WIDE_PLUS: {"net": _of_wide_resnet, "_AsppPooling": _pooling, "_DeepLabHead": _wide_decoder},
    FAST: {"net": _of_fast, "_FastPyramidPooling": _pyramid, "FeatureFusionModule": _fusion},
}
