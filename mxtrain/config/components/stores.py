"""Stores by name: `--kvstore`, and how gradients are packed for them: `--compress`. To add one is an entry here.

Owns what a store is to the checks and the step. What a store does is `mxtrain/kvstore/`'s and MXNet's own.
"""

from __future__ import annotations

import dataclasses

from mxtrain.config.components import component
from mxtrain.config.components.choices import ON_SERVERS
from mxtrain.config.components.component import Component, Number, by_name


@dataclasses.dataclass(frozen=True)
class Store(Component):
    """A store, by the name that MXNet gives it."""

    is_cluster: bool = False  # of several processes, and takes the flags of a cluster
    has_servers: bool = False  # sums through server processes
    is_of_gpus: bool = False  # sums over GPUs alone
    is_async: bool = False  # workers update the weights on the servers without waiting for each other


STORES = by_name(
    Store("local", "gradients are summed on the CPU"),
    Store("device", "gradients are summed on the devices"),
    Store("nccl", "as device, by NVIDIA's library over the GPUs of one host (untested)", is_of_gpus=True),
    Store("allreduce", "as dist_sync, with sums that the workers make among themselves", is_cluster=True),
    Store("dist_sync", "every step is made of all workers' gradients", is_cluster=True, has_servers=True),
    Store(
        "dist_async",
        "every worker's gradient moves the weights by itself",
        is_cluster=True,
        has_servers=True,
        is_async=True,
    ),
    Store(
        "dist_device_sync",
        "dist_sync, summed on the worker's devices first",
        is_cluster=True,
        has_servers=True,
    ),
    Store("dist_sync_device", "dist_device_sync", is_cluster=True, has_servers=True),
    Store(
        "dist_async_device",
        "dist_async, summed on the worker's devices first",
        is_cluster=True,
        has_servers=True,
        is_async=True,
    ),
)
COMPRESSIONS = by_name(
    Component("none", "as they are"),
    Component(
        "2bit",
        "each number as -`threshold`, 0 or `threshold`; what is left is sent later",
        numbers={"threshold": Number(0.5, 1e-9, 1e9)},
    ),
    Component("bf16", "rounded to bfloat16 between hosts, by `allreduce`"),
)


def is_cluster(kvstore: str) -> bool:
    """Return whether this store, a known one, is a cluster's."""
    return kvstore in STORES and STORES[kvstore].is_cluster


def has_servers(kvstore: str) -> bool:
    """Return whether this store, a known one, sums through server processes."""
    return kvstore in STORES and STORES[kvstore].has_servers


def num_servers(kvstore: str, count: int) -> int:
    """Return how many servers a job with this store has, of which --num-servers asks for `count`."""
    return count if has_servers(kvstore) else 0


def has_owners(kvstore: str, update: str) -> bool:
    """Return whether servers own the weights (--update servers) of steps that all workers make together."""
    return update == ON_SERVERS and has_servers(kvstore) and not is_async(kvstore)


def is_async(kvstore: str) -> bool:
    """Return whether workers with this store (`dist_async`) update the weights without waiting for each other."""
    return kvstore in STORES and STORES[kvstore].is_async


def is_compressed(text: str) -> bool:
    """Return whether --compress says that gradients do not travel as they are."""
    return component.parse("--compress", text, COMPRESSIONS).name != "none"


def rounds_gradients(text: str) -> bool:
    """Return whether --compress says that gradients are rounded to bfloat16 between hosts."""
    return component.parse("--compress", text, COMPRESSIONS).name == "bf16"


def compression_threshold(text: str) -> float:
    """Parse --compress, to the threshold of `2bit`; 0 where nothing is compressed."""
    parsed = component.parse("--compress", text, COMPRESSIONS)
    return float(parsed.hyperparameters.get("threshold", 0.0))
