"""The detectors of GluonCV that can be trained, by its names; a test compares them with its model zoo.

Owns their names, and the size of pictures that each is made for. What a name's last word says, of which data set
GluonCV's own weights are, decides about anchors at most: classes are those of the data.
"""

from __future__ import annotations

SSD, YOLO, CENTER_NET = "ssd", "yolo3", "center_net"  # as the names begin

SSD_NETS = (
    *(f"ssd_{size}_vgg16_atrous_{data}" for size in (300, 512) for data in ("voc", "coco", "custom")),
    *("ssd_512_resnet18_v1_voc", "ssd_512_resnet18_v1_coco"),
    *(f"ssd_512_resnet50_v1_{data}" for data in ("voc", "coco", "custom")),
    *("ssd_512_resnet101_v2_voc", "ssd_512_resnet152_v2_voc"),
    *(f"ssd_512_mobilenet1.0_{data}" for data in ("voc", "coco", "custom")),
    "ssd_300_mobilenet1.0_lite_coco",
    *(f"ssd_300_mobilenet0.25_{data}" for data in ("voc", "coco", "custom")),
    *(f"ssd_300_resnet34_v1b_{data}" for data in ("voc", "coco", "custom")),
)
YOLO_NETS = tuple(
    f"yolo3_{backbone}_{data}"
    for backbone in ("darknet53", "mobilenet1.0", "mobilenet0.25")
    for data in ("voc", "coco", "custom")
)
CENTER_NETS = tuple(
    f"center_net_{backbone}_{data}"
    for backbone in (
        *(f"resnet{depth}_v1b{more}" for depth in (18, 50, 101) for more in ("", "_dcnv2")),
        *("dla34", "dla34_dcnv2", "mobilenetv3_large_duc", "mobilenetv3_small_duc"),
    )
    for data in ("voc", "coco")
)
DETECTORS = (*SSD_NETS, *YOLO_NETS, *CENTER_NETS)
TWO_STAGE = ("faster_rcnn", "mask_rcnn", "doublehead_rcnn", "custom_faster_rcnn", "custom_mask_rcnn")

_PACKAGES = {SSD: "ssd.presets", YOLO: "yolo.yolo3", CENTER_NET: "center_net.center_net"}


def family_of(name: str) -> str:
    """Return what a detector is one of: SSD, YOLO or CENTER_NET."""
    return next(family for family in _PACKAGES if name.startswith(family))


def image_size_of(name: str) -> int:
    """Return the height and width of the pictures that a detector is made for; 0 of any other net."""
    if name not in DETECTORS:
        return 0
    family = family_of(name)
    return int(name.split("_")[1]) if family == SSD else 416 if family == YOLO else 512


def function_of(name: str) -> tuple[str, str]:
    """Return the module of gluoncv and the function in it that make the detector called `name`."""
    return f"gluoncv.model_zoo.{_PACKAGES[family_of(name)]}", name.replace(".", "_")
