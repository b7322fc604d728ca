"""Checks of where the data of a run lies, and in which order it is read."""

from __future__ import annotations

from mxtrain.config import Data
from mxtrain.config.values import addresses, orders
from mxtrain.core.errors import UsageError


def check(data: Data) -> None:
    """Refuse orders and addresses that cannot be, with a UsageError that repeats no password."""
    orders.window_mb(data.order)
    if data.order != orders.PERMUTATION and data.sampling != "once":
        raise UsageError(
            f"--order {data.order}: takes each sample once; leave --sampling {data.sampling} out"
        )
    for flag, source in (("--train", data.train), ("--val", data.val)):
        for part in (source or "").split(","):
            if addresses.is_address(part.strip()):
                addresses.parse(flag, part.strip())
