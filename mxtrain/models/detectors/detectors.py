"""Detectors by name: their nets, and the coders between boxes and what the nets answer.

To add a family is a net, a coder, and an entry in each function here.
"""

from __future__ import annotations

from mxtrain.config.components.zoo import detector_names
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.models.detectors import ssd_anchors, ssd_net
from mxtrain.models.detectors.coder import BoxCoder
from mxtrain.models.detectors.ssd import SsdCoder
from mxtrain.runtime.types import Block


def build(name: str, num_classes: int) -> Block:
    """Return the detector called `name`, not initialised."""
    return ssd_net.build(name, num_classes)


def coder(name: str, num_classes: int, size: Size) -> BoxCoder:
    """Return what is between boxes and the answers of the detector called `name` to pictures of this size."""
    try:
        cells = ssd_net.cells(build(name, num_classes), *size)
    except ValueError:
        raise UsageError(
            f"--image-size {size.height}x{size.width}: is too small for --model {name}, which is made for "
            f"{detector_names.image_size_of(name)}; give more, or another net"
        ) from None
    return SsdCoder(ssd_anchors.anchors(name, cells, size), num_classes)
