"""A loss that takes its time for every micro-batch that is trained on, and a net for every sample it is judged by."""

from __future__ import annotations

import time
from typing import Any

from mxtrain.models import losses
from mxtrain.runtime import mx
from tests.support.nets import user_net

MICRO_BATCH_SECONDS = 1.0
SAMPLE_SECONDS = 1.2


def loss(output: Any, label: Any) -> Any:
    if mx.autograd.is_recording():
        time.sleep(MICRO_BATCH_SECONDS)
    return losses.cross_entropy(output, label)


class Net(mx.gluon.Block):  # type: ignore[misc]
    def __init__(self, num_classes: int):
        super().__init__()
        self.body = user_net.plain(num_classes)

    def forward(self, pictures: Any) -> Any:
        if not mx.autograd.is_recording():
            time.sleep(SAMPLE_SECONDS * len(pictures))
        return self.body(pictures)
