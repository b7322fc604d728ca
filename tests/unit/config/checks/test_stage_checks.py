"""What does not go with --stages is refused with the flag's name and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config import batch_plan
from mxtrain.config.checks import stage_checks
from mxtrain.core.errors import UsageError

STAGES = {"train": "a.rec", "stages": 2, "devices": "cpu:0,1"}


def run(**flags: Any) -> config.Run:
    return config.from_flat({**config.to_flat(config.Run()), **STAGES, **flags})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"devices": "cpu"}, "--stages 2 with --devices cpu: .* give --devices cpu:0,1 or gpu:0,1"),
        ({"devices": "cpu:0,1,2,3"}, "--stages 2 with --devices cpu:0,1,2,3: .* of its own"),
        ({"hold": "layers"}, "--stages 2 with --hold layers: .* leave one of them out"),
        ({"remat": True}, "--stages 2 with --remat: .* leave one of them out"),
        ({"head_chunk": 64}, "--stages 2 with --head-chunk 64: .* leave one of them out"),
        ({"profile": "5-6"}, "--stages 2 with --profile 5-6: .* leave it out"),
        ({"kvstore": "dist_async"}, "--stages 2 with --kvstore dist_async: .* dist_sync, allreduce"),
    ],
)
def test_what_does_not_go_with_stages(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stage_checks.check(run(**flags))


@pytest.mark.parametrize("store", ["device", "dist_sync", "allreduce"])
def test_what_does(store: str) -> None:
    stage_checks.check(run(kvstore=store, num_workers=3, ema=0.9, teacher="runs/a", prune=0.5))


def test_devices_that_hold_a_net_together_are_one_replica() -> None:
    plan = batch_plan.of_run(run(batch_size=64, num_workers=2))
    alone = batch_plan.of_run(run(batch_size=64, num_workers=2, stages=1, devices="cpu"))
    assert plan == alone and plan.num_replicas == 2
