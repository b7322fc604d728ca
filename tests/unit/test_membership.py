"""What becomes of a run at the roll call."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config import Keep
from mxtrain.kv import membership, rollcall
from mxtrain.kv.rollcall import Go


def kept(*flags: str, **told: Any) -> Keep:
    go = {"resume_step": rollcall.FRESH, **told}
    place = {"engine_port": 1, "num_workers": 2, "num_servers": 1, "number": 0, "writes": True}
    run = config.parse(["--kvstore", "dist_sync", "--num-workers", "2", "--out", "run", *flags])
    return membership.settled(run, Go(local_workers=1, **place, **go)).keep


@pytest.mark.parametrize("resume", ["auto", "never", "elsewhere/step-00000003"])
def test_it_goes_on_from_the_step_that_all_have(resume: str) -> None:
    assert kept("--resume", resume, resume_step=40).resume == "run/checkpoints/step-00000040"
