"""The net of `benchmarks.same_curve`, which the second worker of a job's first attempt builds late.

So ps-lite, which comes after the net, waits there for that worker, for as long as a test wants.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benchmarks.same_curve import nets

GO = "LATE_NET_GO"  # the variable with the file that it waits for
DEADLINE_SECONDS = 100


def with_both(num_classes: int) -> Any:
    if os.environ["MXTRAIN_NODE"] == "worker-1" and os.environ["MXTRAIN_GENERATION"] == "0":
        end = time.monotonic() + DEADLINE_SECONDS
        while not Path(os.environ[GO]).exists():
            assert time.monotonic() < end, f"no {os.environ[GO]}"
            time.sleep(0.02)
    return nets.with_both(num_classes)
