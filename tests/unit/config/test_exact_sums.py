"""Why gradients are not added exactly, and what a run is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config import exact_sums


def run_of(flags: str) -> config.Run:
    return config.parse(f"--train t.rec --batch-size 16 --micro-batch 4 {flags}".split())


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--devices cpu:0,1",
        "--kvstore dist_sync --num-workers 3",
        "--amp bf16 --ema 0.9 --loss-scale dynamic",
    ],
)
def test_on_cpus_nothing_speaks_against_exact_sums(flags: str) -> None:
    assert exact_sums.reason_against(run_of(flags)) is None


@pytest.mark.parametrize(
    ("flags", "net", "reason"),
    [
        ("--sums fast", {}, "--sums fast"),
        ("--kvstore dist_async --num-workers 2", {}, "--kvstore dist_async"),
        ("--kvstore dist_sync --compress 2bit", {}, "--compress 2bit"),
        ("--devices gpu:0,1", {}, "--devices gpu:0,1"),
        ("", {"tables": ["emb.weight", "other"]}, "the row-sparse gradient of emb.weight"),
        ("", {"other_types": {"0.weight": "float64", "0.bias": "float64"}}, "0.weight in float64"),
        ("--sums fast --devices gpu", {}, "--sums fast and --devices gpu"),
    ],
)
def test_each_reason_is_named(flags: str, net: dict[str, Any], reason: str) -> None:
    assert exact_sums.reason_against(run_of(flags), **net) == reason


@pytest.mark.parametrize(
    ("flags", "consequence"),
    [
        ("--sums fast", "another number of devices or workers gives other last bits"),
        ("--sums fast --kvstore dist_sync --num-workers 2", "another number of devices or workers gives"),
        (
            "--sums fast --kvstore dist_sync --num-workers 3",
            "3 workers get other last bits each time, and another",
        ),
        (
            "--kvstore dist_sync --num-workers 3 --compress 2bit",
            "another number of workers computes another curve",
        ),
        ("--kvstore dist_async --num-workers 2", "the curve depends on which worker comes first"),
        ("--devices gpu", "last bits on GPUs may differ each time, and another"),
    ],
)
def test_what_follows_is_told(flags: str, consequence: str) -> None:
    run = run_of(flags)
    reason = exact_sums.reason_against(run)
    assert reason is not None
    line = exact_sums.warning(run, reason)
    assert line.startswith(f"gradients are added as they come, not exactly ({reason}): {consequence}")
    assert "\n" not in line


def test_a_step_of_one_micro_batch_has_no_sums() -> None:
    assert exact_sums.has_sums(run_of(""))
    assert not exact_sums.has_sums(run_of("--micro-batch 16"))
