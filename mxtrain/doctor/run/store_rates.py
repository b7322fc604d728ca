"""Rates of an object store, and the requests and bytes that an epoch asks it for.

Owns the measurement, which asks for a few blocks past the cache, and the arithmetic of requests and bytes. The words
for local files are `doctor/machine/disk_advice.py`'s.
"""

from __future__ import annotations

import concurrent.futures
import statistics
import time
from typing import Any, NamedTuple, Sequence

import numpy as np

from mxtrain.config.values import orders
from mxtrain.data.storage import stores
from mxtrain.data.storage.remote_bytes import RemoteBytes
from mxtrain.data.storage.stores import AT_ONCE

NUM_WAITS = 5
MOST_BLOCKS = 16


class EpochCost(NamedTuple):
    """The ranges and bytes that an epoch asks for, the first one and each later one."""

    requests: int
    num_bytes: int
    later_requests: int
    later_bytes: int


def epoch_cost(sizes: Sequence[int], num_samples: int, cache_bytes: int, order: str) -> EpochCost:
    """Return what an epoch of one host costs, from the sizes of all blocks.

    With more data than the cache holds, a permutation finds a block in it as often as the cache's share of the data.
    """
    total, num_blocks = sum(sizes), len(sizes)
    if total <= cache_bytes:
        return EpochCost(num_blocks, total, 0, 0)
    if order != orders.PERMUTATION:
        return EpochCost(num_blocks, total, num_blocks, total)
    requests = round(num_samples * (1 - cache_bytes / total))
    of_all = requests * (total // num_blocks)
    return EpochCost(requests, of_all, requests, of_all)


def examine(files: Sequence[RemoteBytes], num_samples: int, order: str, per_second: float) -> dict[str, Any]:
    """Return what an epoch costs, the store's wait and bandwidth, and `advice` for so many samples a second."""
    sizes = [end - start for file in files for start, end in file.blocks()]
    options = files[0].options
    cost = epoch_cost(sizes, num_samples, options.cache_bytes, order)
    wait, rate = _wait(files[0]), _rate(files)
    needed = per_second * cost.num_bytes / num_samples
    advice = []
    if cost.num_bytes > sum(sizes):
        advice.append(
            f"--order {order} of {sum(sizes) / 1e9:.1f} GB through --storage-cache-mb {options.cache_bytes >> 20} asks "
            f"for {cost.num_bytes / 1e9:.1f} GB an epoch; give --order windows, or a cache that holds the data"
        )
    if rate < needed:
        advice.append(
            f"the store gives {rate / 1e6:.0f} MB/s, the run would take {needed / 1e6:.0f} MB/s: the link bounds it; "
            "keep the data nearer, or on a disk"
        )
    return {"cost": cost, "wait": wait, "bytes_per_second": rate, "needed": needed, "advice": advice}


def in_words(findings: dict[str, Any]) -> list[str]:
    """Return the measurement in lines of a table."""
    cost = findings["cost"]
    return [
        f"an epoch asks for {cost.requests:,} ranges, {cost.num_bytes / 1e9:.2f} GB"
        + ("" if cost.later_requests else "; later ones for none, all is in the cache"),
        f"the store answers after {1e3 * findings['wait']:.0f} ms and gives "
        f"{findings['bytes_per_second'] / 1e6:.0f} MB/s by {AT_ONCE} requests at once; the run would take "
        f"{findings['needed'] / 1e6:.0f} MB/s",
    ]


def _wait(file: RemoteBytes) -> float:
    """Return the seconds until a short range is there, the median of some."""
    seconds = []
    for _ in range(NUM_WAITS):
        began = time.monotonic()
        stores.read(file.address, 0, 8, file.version, file.options.patience)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds)


def _rate(files: Sequence[RemoteBytes]) -> float:
    """Return the bytes a second of some blocks, spread over the files, that are asked for at once."""
    blocks = [(file, *block) for file in files for block in file.blocks()]
    chosen = np.unique(np.linspace(0, len(blocks) - 1, MOST_BLOCKS).astype(int)).tolist()
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(lambda place: _length(*blocks[place]), chosen)
        num_bytes = sum(done)
    return num_bytes / (time.monotonic() - began)


def _length(file: RemoteBytes, start: int, end: int) -> int:
    return len(stores.read(file.address, start, end, file.version, file.options.patience))
