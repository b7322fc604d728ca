"""What does not go with --head-chunk is refused with the flag's name and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config.checks import head_checks, hold_checks
from mxtrain.core.errors import UsageError
from mxtrain.tasks import registry

CHUNK = {"train": "a.rec", "head_chunk": 1000}


def run(**flags: Any) -> config.Run:
    return config.from_flat({**config.to_flat(config.Run()), **CHUNK, **flags})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"loss": "focal"}, "--loss focal with --head-chunk 1000: .* cross_entropy, arcface or cosface"),
        ({"label_smoothing": 0.1}, "--label-smoothing 0.1 with --head-chunk 1000: .* leave it out"),
        ({"mixup": 0.2}, "--mixup 0.2 with --head-chunk 1000: .* leave it out"),
        ({"cutmix": 1.0}, "--cutmix 1 with --head-chunk 1000: .* leave it out"),
        ({"teacher": "runs/a"}, "--teacher runs/a with --head-chunk 1000: .* leave it out"),
        ({"prune": 0.5}, "--prune 0.5 with --head-chunk 1000: .* leave one of them out"),
        ({"metric": "accuracy,auc"}, "--metric auc with --head-chunk 1000: .* evaluate"),
        ({"stages": 2}, "--stages 2 with --head-chunk 1000: .* leave one of them out"),
        ({"devices": "gpu"}, "--devices gpu with --head-chunk 1000: .* --devices cpu"),
    ],
)
def test_what_needs_all_classes_at_once(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        head_checks.check(run(**flags))
    head_checks.check(run(**flags, head_chunk=0))


@pytest.mark.parametrize(
    "flags", [{}, {"loss": "arcface"}, {"loss": "cosface:scale=16"}, {"metric": "accuracy", "ema": 0.9}]
)
def test_what_goes_with_chunks(flags: dict[str, Any]) -> None:
    head_checks.check(run(**flags))


def test_a_sample_of_the_classes_of_a_head_that_is_whole() -> None:
    with pytest.raises(UsageError, match=r"--head-classes 50: .* give --head-chunk too"):
        head_checks.check(run(head_chunk=0, head_classes=50))
    head_checks.check(run(head_classes=50))


LENT = {"kvstore": "dist_sync", "update": "servers"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"ema": 0.9}, "--ema 0.9 with --head-chunk 1000 --update servers: .* leave it out"),
        (
            {"devices": "cpu:0,1"},
            "--head-chunk 1000 --update servers with --devices cpu:0,1: .* --num-workers",
        ),
    ],
)
def test_what_needs_all_chunks_at_a_worker(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hold_checks.check(run(**LENT, **flags))
    hold_checks.check(run(**LENT))
    hold_checks.check(run(**flags))  # which holds all chunks


def test_other_tasks_have_no_head_in_chunks() -> None:
    with pytest.raises(UsageError, match="--head-chunk goes with --task classification, not with lm"):
        registry.check_flags(run(task="lm"))
