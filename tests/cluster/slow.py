"""A loss that takes its time for every micro-batch that is trained on."""

from __future__ import annotations

import time
from typing import Any

from mxtrain.models import losses
from mxtrain.runtime import mx

MICRO_BATCH_SECONDS = 1.0


def loss(output: Any, label: Any) -> Any:
    if mx.autograd.is_recording():
        time.sleep(MICRO_BATCH_SECONDS)
    return losses.cross_entropy(output, label)
