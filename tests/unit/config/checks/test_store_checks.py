"""What a store cannot do is refused with the flag's name and the way out; the rest is not."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config.checks.store_checks import check_async, check_store, check_tables
from mxtrain.config.components.optimizers import OPTIMIZERS
from mxtrain.core.errors import UsageError

ASYNC = {"train": "a.rec", "kvstore": "dist_async", "num_workers": 2}


def run(**flags: Any) -> config.Run:
    return config.from_flat({**config.to_flat(config.Run()), **ASYNC, **flags})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"ema": 0.999}, "--ema 0.999 .* leave it out"),
        ({"compress": "2bit"}, "--compress 2bit .* dist_sync"),
        ({"lr_base_batch": 256}, "--lr-base-batch 256 .* --lr"),
        ({"amp": "fp16"}, "--amp fp16 .* --loss-scale"),
        ({"loss_scale": "dynamic"}, "--loss-scale dynamic .* number"),
        ({"optimizer": "lamb"}, "--optimizer lamb .* adamw"),
        ({"optimizer": "lars:eta=0.01"}, "--optimizer lars .* sgd"),
        (
            {"optimizer": "mxtrain.core.errors:nearest"},
            "--optimizer mxtrain.core.errors:nearest .* known one",
        ),
        ({"batch_size": 40, "num_workers": 3}, "--num-workers 3 .* 2 micro-batches .* --micro-batch"),
    ],
)
def test_what_cannot_be_done(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_async(run(**flags))


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name not in ("lamb", "lars")])
def test_other_optimizers_are_welcome(optimizer: str) -> None:
    check_async(run(optimizer=optimizer))


@pytest.mark.parametrize(
    "flags",
    [
        {"clip_norm": 1.0},
        {"clip_value": 1.0},
        {"amp": "fp16", "loss_scale": "1024"},
        {"amp": "bf16"},
        {"freeze": "a.*"},
    ],
)
def test_what_a_worker_can_do_by_itself(flags: dict[str, Any]) -> None:
    check_async(run(**flags))


def test_nccl_is_for_gpus() -> None:
    with pytest.raises(UsageError, match="--kvstore nccl sums over GPUs, but --devices is cpu:0,1"):
        check_store(run(kvstore="nccl", devices="cpu:0,1", num_workers=1))
    check_store(run(kvstore="nccl", devices="gpu:0,1", num_workers=1))


def test_a_store_without_servers_takes_a_clusters_flags_but_theirs() -> None:
    check_store(run(kvstore="allreduce", min_workers=1, silence_timeout=5.0, max_restarts=1))
    with pytest.raises(UsageError, match="--num-servers 2: --kvstore allreduce has no servers; leave it out"):
        check_store(run(kvstore="allreduce", num_servers=2))
    with pytest.raises(UsageError, match="--min-workers 3 is more than the 2 workers"):
        check_store(run(kvstore="allreduce", min_workers=3))


def test_rows_of_a_table_need_servers_to_travel_to() -> None:
    with pytest.raises(UsageError, match=r"--kvstore allreduce with a row-sparse table .* give dist_sync"):
        check_tables(run(kvstore="allreduce"), [])
    with pytest.raises(UsageError, match="weight has row-sparse gradients; with --kvstore allreduce"):
        check_tables(run(kvstore="allreduce"), ["weight"])
    check_tables(run(kvstore="dist_sync"), [])


OWNED = {"kvstore": "dist_sync", "update": "servers"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        *(
            (
                {"kvstore": store},
                f"--update servers: --kvstore {store} has no servers; give --kvstore dist_sync",
            )
            for store in ("local", "device", "allreduce")
        ),
        (
            {"optimizer": "mxtrain.core.errors:nearest"},
            "--optimizer mxtrain.core.errors:nearest .* known one",
        ),
        ({"compress": "2bit"}, "--compress 2bit with --update servers: .* leave it out"),
        ({"prune": 0.5, "prune_by": "weight"}, "--prune 0.5 --prune-by weight with --update servers: .*"),
    ],
)
def test_what_owners_cannot_do(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_store(run(**{**OWNED, **flags}))


@pytest.mark.parametrize(
    "flags",
    [
        {"kvstore": "dist_async"},
        {"optimizer": "lamb", "ema": 0.9, "clip_norm": 1.0, "clip_value": 1.0, "loss_scale": "dynamic"},
        {"prune": 0.5, "prune_by": "channel"},
        {"average": 2},
    ],
)
def test_what_owners_can_do(flags: dict[str, Any]) -> None:
    check_store(run(**{**OWNED, **flags}))


def test_rows_of_tables_do_not_go_to_owners() -> None:
    with pytest.raises(
        UsageError, match=r"--update servers with a row-sparse table in the net: .* leave --update out"
    ):
        check_tables(run(**OWNED), [])
