"""What does not go with --hold layers or --store-dir is refused with the flag's name and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config.checks import hold_checks
from mxtrain.config.checks.store_checks import check_store, refuse_folder
from mxtrain.core.errors import UsageError

LAYERS = {"train": "a.rec", "hold": "layers"}


def run(**flags: Any) -> config.Run:
    return config.from_flat({**config.to_flat(config.Run()), **LAYERS, **flags})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"hold": "layer"}, "--hold layer: unknown.* layers"),
        ({"devices": "cpu:0,1"}, "--hold layers with --devices cpu:0,1: .* --num-workers"),
        ({"devices": "gpu"}, "--hold layers with --devices gpu: .* --devices cpu"),
        *(
            ({"kvstore": store}, f"--hold layers with --kvstore {store}: .* dist_sync --update servers")
            for store in ("dist_sync", "dist_async", "allreduce")
        ),
        ({"ema": 0.9}, "--ema 0.9 with --hold layers: .* leave it out"),
        ({"average": 2}, "--average 2 with --hold layers: .* leave it out"),
        ({"prune": 0.5}, "--prune 0.5 with --hold layers: .* leave one of them out"),
        ({"teacher": "runs/a"}, "--teacher runs/a with --hold layers: .* leave it out"),
        ({"profile": "5-6"}, "--profile 5-6 with --hold layers: .* leave it out"),
        ({"sums": "fast"}, "--sums fast with --hold layers: .* --sums exact"),
    ],
)
def test_what_needs_the_whole_net(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hold_checks.check(run(**flags))


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"kvstore": "local"},
        {"kvstore": "dist_sync", "update": "servers", "num_workers": 3, "num_servers": 2},
        {"optimizer": "lamb", "clip_norm": 1.0, "clip_value": 1.0, "loss_scale": "dynamic", "amp": "bf16"},
    ],
)
def test_what_goes_with_layers(flags: dict[str, Any]) -> None:
    hold_checks.check(run(**flags))
    check_store(run(store_dir="owned", **flags))


@pytest.mark.parametrize("store", ["local", "device", "dist_sync", "dist_async", "allreduce"])
def test_a_folder_for_weights_that_nobody_owns(store: str) -> None:
    """In one process that is known once the net is: rows of tables would lie there."""
    check = check_store if store not in ("local", "device") else refuse_folder
    with pytest.raises(UsageError, match=r"--store-dir owned: .* --update servers, or --hold layers"):
        check(run(store_dir="owned", hold="all", kvstore=store))
