"""A loss for which workers pause while there is a file: a job is under way for as long as a test wants."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mxtrain.models import losses

PAUSE = "PAUSED_LOSS"  # the variable with the file's path; without it nobody pauses


def loss(output: Any, label: Any) -> Any:
    while PAUSE in os.environ and Path(os.environ[PAUSE]).exists():  # --stall-timeout ends it at last
        time.sleep(0.02)
    return losses.cross_entropy(output, label)
