"""What becomes of a run at the roll call."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.cluster import rendezvous
from mxtrain.cluster.rendezvous import Assignment
from mxtrain.config import Output
from mxtrain.train import join


def kept(*flags: str, **told: Any) -> Output:
    go = {"resume_step": rendezvous.FRESH, "several_disks": False, **told}
    place = {"engine_port": 1, "num_workers": 2, "num_servers": 1, "rank": 0, "is_writer": True}
    run = config.parse(["--kvstore", "dist_sync", "--num-workers", "2", "--out", "run", *flags])
    return join.settled(run, Assignment(local_workers=1, **place, **go)).output


@pytest.mark.parametrize("resume", ["auto", "never", "elsewhere/step-00000003"])
def test_it_goes_on_from_the_step_that_all_have(resume: str) -> None:
    assert kept("--resume", resume, resume_step=40).resume == "run/checkpoints/step-00000040"


@pytest.mark.parametrize(
    ("resume", "settled"),
    [("auto", "never"), ("never", "never"), ("elsewhere/step-00000003", "elsewhere/step-00000003")],
)
def test_where_all_begin_none_goes_on_from_what_only_its_own_disk_has(resume: str, settled: str) -> None:
    assert kept("--resume", resume).resume == settled


@pytest.mark.parametrize(("keep_last", "on_several"), [("1", 2), ("2", 2), ("5", 5)])
def test_the_newest_that_all_disks_have_is_never_pruned(keep_last: str, on_several: int) -> None:
    assert kept("--keep-last", keep_last, several_disks=True).keep_last == on_several
    assert kept("--keep-last", keep_last).keep_last == int(keep_last)
