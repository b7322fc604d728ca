"""Which device has which part of a net: decided by the first worker, by what it measures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Sequence

import numpy as np

from mxtrain.core.errors import UsageError
from mxtrain.models.stages import StagedNet
from mxtrain.train.net import net_bytes
from mxtrain.train.staged import part_times
from mxtrain.train.staged.cuts import best_ends, spans

if TYPE_CHECKING:
    from mxtrain.cluster.worker_group import WorkerGroup
    from mxtrain.runtime.types import Device

logger = logging.getLogger(__name__)


def place(net: StagedNet, devices: Sequence[Device], shape: Sequence[int], group: WorkerGroup) -> None:
    """Put the parts of a net on devices, a stretch of them on each. A collective.

    Args:
        net: The net in parts.
        devices: One for each stage.
        shape: The shape of a micro-batch.
        group: All workers, whose nets are cut alike.
    """
    num_parts = len(net.parts)
    if num_parts < len(devices):
        raise UsageError(
            f"{net.flag}: the net has {num_parts} parts that follow each other; give no more stages"
        )
    found = np.zeros(len(devices) - 1)
    sizes = [sum(map(net_bytes.num_bytes, part.parameters.values())) for part in net.parts]
    if group.rank == 0:
        seconds = part_times.measured(net, shape, devices[0])
        found[:] = best_ends(seconds, sizes, len(devices))
    stages = spans(group.sum(found).astype(int).tolist(), num_parts)
    net.place([device for device, (start, end) in zip(devices, stages) for _ in range(start, end)])
    if group.rank == 0:
        for device, (start, end) in zip(devices, stages):
            share, size = sum(seconds[start:end]) / sum(seconds), sum(sizes[start:end])
            logger.info(
                "%s: %s has %.0f%% of the time, weights of %.1f MB", net.flag, device, 100 * share, size / 1e6
            )
