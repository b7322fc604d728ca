"""A change of pictures that takes as long as a slow disk."""

from __future__ import annotations

import time
from typing import Any

SECONDS = 0.05


def slow(image: Any, rng: Any) -> Any:
    time.sleep(SECONDS)
    return image
