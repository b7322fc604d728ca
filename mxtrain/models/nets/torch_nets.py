"""Nets that compute what those of torchvision and timm do, where GluonCV's of that name do not.

They are GluonCV's nets with what differs exchanged, and keep its parameters' places, so that `--pretrained` takes
weights of the one for the other. Which of torch's weights belong to which parameter is
`convert/torch/torch_names.py`'s.
"""

from __future__ import annotations

from typing import Any

from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

nn = mx.gluon.nn

# Torch's momentum is the new batch's share, MXNet's that of the past.
TORCHVISION_V3 = {"eps": 1e-3, "momentum": 0.99}
HIDDEN_OF_SMALL = 1024  # GluonCV's has 1280, as the large one
LAST_MAP = 7  # pixels of the side of the map that a vgg's first dense layer takes


def base_of(name: str) -> str:
    """Return the name of GluonCV's net that the net `name` is made of."""
    plain = name.partition("/")[2]
    bases = {
        "mobilenet_v2": "mobilenetv2_1.0",
        "wide_resnet50_2": "resnet50_v1b",
        "wide_resnet101_2": "resnet101_v1b",
    }
    return bases.get(plain, plain.replace("mobilenet_v3", "mobilenetv3").replace("_100", ""))


def adapt(net: Block, name: str, num_classes: int) -> None:
    """Make of GluonCV's net, as it is built, the net `name`."""
    base = base_of(name)
    if base.startswith("densenet"):
        _exchange(net.features, nn.AvgPool2D, nn.GlobalAvgPool2D())  # the last; others are inside of stages
    elif base.startswith("vgg"):
        _add_adaptive_pooling(net.features)
    elif base == "mobilenetv2_1.0":
        _exchange(net.output, nn.Conv2D, nn.Conv2D(num_classes, 1, prefix="pred_"))
    elif base.startswith("mobilenetv3"):
        _adapt_mobilenetv3(net, name, num_classes)
    elif name.partition("/")[2].startswith("wide_resnet"):
        _widen(net)


def _exchange(sequence: Block, layer_type: type, layer: Block) -> None:
    """Put `layer` into the place of the last one of class `kind` in a sequence."""
    place = [key for key, child in sequence._children.items() if type(child) is layer_type][-1]
    sequence._children[place] = layer


class _AdaptivePooling(mx.gluon.HybridBlock):
    """A mean over as many boxes as a vgg's first dense layer takes; nothing for pictures of 224 pixels."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.contrib.AdaptiveAvgPooling2D(x, output_size=LAST_MAP)


def _add_adaptive_pooling(features: Block) -> None:
    pooling = nn.HybridSequential(prefix="")
    pooling.add(nn.MaxPool2D(strides=2), _AdaptivePooling())
    _exchange(features, nn.MaxPool2D, pooling)


def _adapt_mobilenetv3(net: Block, name: str, num_classes: int) -> None:
    hidden = HIDDEN_OF_SMALL if "small" in name else net.output[0]._in_channels
    _exchange(net.features, nn.Conv2D, nn.Conv2D(hidden, 1, prefix="last-1x1-conv2-conv2d_"))
    _exchange(net.output, nn.Conv2D, nn.Conv2D(num_classes, 1, in_channels=hidden, prefix="output_fc_"))
    if name.startswith("torchvision/"):
        for layer in weights.layers(net, nn.BatchNorm):
            layer._kwargs.update(TORCHVISION_V3)


def _widen(net: Block) -> None:
    """Let the inner convolutions of each block have twice the channels."""
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        for block in stage._children.values():
            for conv, norm in ((block.conv1, block.bn1), (block.conv2, block.bn2)):
                outputs, inputs, *kernel = conv.weight.shape
                conv._channels, conv._kwargs["num_filter"] = 2 * outputs, 2 * outputs
                conv.weight._shape = (2 * outputs, inputs, *kernel)
                for parameter in norm._reg_params.values():
                    parameter._shape = (2 * outputs,)
