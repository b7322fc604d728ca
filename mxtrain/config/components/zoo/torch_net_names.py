"""The nets of torchvision and timm that GluonCV has not exactly so, as `--model` calls them.

GluonCV's own mobilenets have no bias in the head, its mobilenetv3 another epsilon; its densenets and vggs differ from
torch's for other pictures than 224 pixels wide. The code behind these names is `models/nets/torch_nets.py`.
"""

from __future__ import annotations

TORCHVISION_NETS = (
    *(
        "torchvision/densenet121",
        "torchvision/densenet161",
        "torchvision/densenet169",
        "torchvision/densenet201",
    ),
    *("torchvision/mobilenet_v2", "torchvision/mobilenet_v3_large", "torchvision/mobilenet_v3_small"),
    *(f"torchvision/vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")),
    *("torchvision/wide_resnet50_2", "torchvision/wide_resnet101_2"),
)
TIMM_NETS = ("timm/mobilenetv3_large_100", "timm/mobilenetv3_small_100")
TORCH_NETS = TORCHVISION_NETS + TIMM_NETS
