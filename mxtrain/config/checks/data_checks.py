"""Checks of where the data of a run lies, in which order it is read, and what loads it."""

from __future__ import annotations

from mxtrain.config import Data
from mxtrain.config.checks import bounds
from mxtrain.config.components import import_path
from mxtrain.config.values import addresses, orders
from mxtrain.core.errors import UsageError


def check(data: Data) -> None:
    """Refuse addresses, orders and loaders that cannot be, with a UsageError that repeats no password."""
    _check_addresses(data)
    _check_loading(data)


def _check_addresses(data: Data) -> None:
    orders.window_mb(data.order)
    if data.order != orders.PERMUTATION and data.sampling != "once":
        raise UsageError(
            f"--order {data.order}: takes each sample once; leave --sampling {data.sampling} out"
        )
    for flag, source in (("--train", data.train), ("--val", data.val)):
        for part in (source or "").split(","):
            if addresses.is_address(part.strip()):
                addresses.parse(flag, part.strip())


def _check_loading(data: Data) -> None:
    for flag, source in (("--train", data.train), ("--val", data.val)):
        if source and import_path.is_import_path(source):
            import_path.check_name(flag, source, ())
    workers = data.loader_workers
    if workers != "auto" and not (
        workers.isdecimal() and len(workers) < 9 and 0 < int(workers) <= bounds.MOST_PROCESSES
    ):
        raise UsageError(
            f"--loader-workers {workers}: give auto, or a number from 1 to {bounds.MOST_PROCESSES}"
        )
    if data.cache_dir and data.cache != "disk":
        raise UsageError(
            f"--cache-dir {data.cache_dir}: --cache is {data.cache}; give --cache disk, or no folder"
        )
