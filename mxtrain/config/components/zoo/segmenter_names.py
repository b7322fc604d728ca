"""The nets of GluonCV that give each pixel a class and can be trained, by its names; a test compares them with its zoo.

Owns their names. What a name's last word says, of which data set GluonCV's own weights are, decides about nothing here.
"""

from __future__ import annotations

FCN, PSP, DEEPLAB, DEEPLAB_PLUS, WIDE_PLUS, FAST = (
    *("fcn", "psp", "deeplab", "deeplab_plus", "deeplab_v3b_plus", "fastscnn"),
)
_DATA = {
    FCN: {"resnet50": "voc ade", "resnet101": "coco voc ade"},
    PSP: {"resnet50": "ade", "resnet101": "coco voc ade citys"},
    DEEPLAB: {
        "resnet50": "ade citys",
        "resnet101": "coco voc ade citys",
        "resnet152": "coco voc",
        **dict.fromkeys(("resnest50", "resnest101", "resnest200", "resnest269"), "ade"),
    },
    DEEPLAB_PLUS: {"xception": "coco"},
    WIDE_PLUS: {"wideresnet": "citys"},
}
SEGMENTERS = (
    *(
        f"{family}_{backbone}_{data}"
        for family, backbones in _DATA.items()
        for backbone, sets in backbones.items()
        for data in sets.split()
    ),
    "fastscnn_citys",
)
NOT_HERE = ("icnet", "danet")  # as the names of GluonCV's other ones begin
_IMAGE_SIZE = 480

_MODULES = {
    FCN: ("fcn", "FCN"),
    PSP: ("pspnet", "PSPNet"),
    DEEPLAB: ("deeplabv3", "DeepLabV3"),
    DEEPLAB_PLUS: ("deeplabv3_plus", "DeepLabV3Plus"),
    WIDE_PLUS: ("deeplabv3b_plus", "DeepLabWV3Plus"),
    FAST: ("fastscnn", "FastSCNN"),
}


def image_size_of(name: str) -> int:
    """Return the height and width of the pictures that GluonCV trains a net on; 0 of any other net."""
    return _IMAGE_SIZE if name in SEGMENTERS else 0


def family_of(name: str) -> str:
    """Return what a net is one of: the longest of the families that its name begins with."""
    return max((family for family in _MODULES if name.startswith(family)), key=len)


def backbone_of(name: str) -> str:
    """Return the classifier that a net is made of, as GluonCV's functions call it; empty for FastSCNN, made of none."""
    family = family_of(name)
    return "" if family == FAST else name[len(family) + 1 :].rpartition("_")[0]


def class_of(name: str) -> tuple[str, str]:
    """Return the module of gluoncv and the class in it of the net called `name`."""
    module, kind = _MODULES[family_of(name)]
    return f"gluoncv.model_zoo.{module}", kind
