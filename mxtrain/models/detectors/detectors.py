"""Detectors by name: their nets, and the coders between boxes and what the nets answer.

To add a family is a net, a coder, and an entry in each function here.
"""

from __future__ import annotations

import functools
from typing import Any

from mxtrain.config.components.zoo import detector_names
from mxtrain.config.components.zoo.detector_names import CENTER_NET, SSD, YOLO
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.models.detectors import center_net, center_net_coder, other_names, ssd_anchors, ssd_net, yolo_net
from mxtrain.models.detectors.center_net_coder import CenterNetCoder
from mxtrain.models.detectors.coder import BoxCoder
from mxtrain.models.detectors.ssd_coder import SsdCoder
from mxtrain.models.detectors.yolo_coder import YoloCoder
from mxtrain.runtime.types import Block


def build(name: str, num_classes: int) -> Block:
    """Return the detector called `name`, not initialised."""
    families = {SSD: ssd_net, YOLO: yolo_net, CENTER_NET: center_net}
    net: Any = families[detector_names.family_of(name)].build(name, num_classes)
    net.other_names = functools.partial(other_names.of_detector, net, name)  # for --pretrained
    built: Block = net
    return built


def coder(name: str, num_classes: int, size: Size) -> BoxCoder:
    """Return what is between boxes and the answers of the detector called `name` to pictures of this size."""
    family = detector_names.family_of(name)
    if family == YOLO:
        return YoloCoder(size, num_classes)
    if family == CENTER_NET:
        if size.height % center_net_coder.STEPS or size.width % center_net_coder.STEPS:
            raise UsageError(
                f"--image-size {size.height}x{size.width}: --model {name} takes multiples of {center_net_coder.STEPS}"
            )
        return CenterNetCoder(size, num_classes)
    try:
        cells = ssd_net.cells(build(name, num_classes), *size)
    except ValueError:
        raise UsageError(
            f"--image-size {size.height}x{size.width}: is too small for --model {name}, which is made for "
            f"{detector_names.image_size_of(name)}; give more, or another net"
        ) from None
    return SsdCoder(ssd_anchors.anchors(name, cells, size), num_classes)


def check(name: str, size: Size, devices: str) -> None:
    """Refuse pictures of a size, or devices, that the detector called `name` does not take, with a UsageError."""
    if "dcnv2" in name and devices.startswith("cpu"):
        raise UsageError(
            f"--model {name}: MXNet 1.9.1 computes its deformable convolutions on GPUs alone; give --devices gpu, or "
            f"{name.replace('_dcnv2', '')}"
        )
    coder(name, 1, size)
