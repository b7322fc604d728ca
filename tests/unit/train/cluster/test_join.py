"""Changes that the rendezvous makes to a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint import directory, resume
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.cluster.admission.assignment import Assignment
from mxtrain.cluster.admission.resume_step import FRESH
from mxtrain.config import Output, Run, batch_plan
from mxtrain.core.errors import UsageError
from mxtrain.train.cluster import join
from tests.support.jobs.control_plane import node_spec


def output_after(*flags: str, **assigned: Any) -> Output:
    return run_after(*flags, **assigned).output


def run_after(*flags: str, **assigned: Any) -> Run:
    fields = {"resume_step": FRESH, "several_disks": False, "num_workers": 2, **assigned}
    place = {"ps_port": 1, "num_servers": 1, "rank": 0, "is_writer": True}
    run = config.parse(["--kvstore", "dist_sync", "--num-workers", "2", "--out", "run", *flags])
    return join.apply_assignment(run, Assignment(local_workers=1, **place, **fields))


@pytest.mark.parametrize("resume", ["auto", "never", "elsewhere/step-00000003"])
def test_a_run_resumes_from_the_common_step(resume: str) -> None:
    assert output_after("--resume", resume, resume_step=40).resume == "run/checkpoints/step-00000040"


@pytest.mark.parametrize(
    ("resume", "applied"),
    [("auto", "never"), ("never", "never"), ("elsewhere/step-00000003", "elsewhere/step-00000003")],
)
def test_without_a_common_step_no_worker_resumes_from_its_own_disk(resume: str, applied: str) -> None:
    assert output_after("--resume", resume).resume == applied


@pytest.mark.parametrize(("keep_last", "on_several"), [("1", 3), ("2", 3), ("5", 5)])
def test_with_several_disks_the_newest_common_checkpoint_is_never_pruned(
    keep_last: str, on_several: int
) -> None:
    assert output_after("--keep-last", keep_last, several_disks=True).keep_last == on_several
    assert output_after("--keep-last", keep_last).keep_last == int(keep_last)


def test_a_job_of_an_earlier_version_goes_on_with_its_micro_batches(tmp_path: Path) -> None:
    """Its checkpoints have them as a number, that of the default of then."""
    flags = ("--batch-size", "64", "--out", str(tmp_path))
    identity = InputIdentity({"class_names": ["a", "b"]}, 100)
    before = {**config.to_flat(run_after(*flags)), "micro_batch": 32}
    arrays = {"weights.params": {"w": np.ones(4, np.float32)}}
    path = directory.write(
        tmp_path / "checkpoints", Snapshot(5, arrays, {"step": 5, "config": before, **identity.to_dict()})
    )
    assigned = run_after(*flags, resume_step=5)
    found = resume.find(assigned, identity)
    assert found is not None and found.checkpoint.path == path
    assert batch_plan.of_run(resume.with_saved_sums(assigned, found.checkpoint)).micro_batch == 32
    assert batch_plan.of_run(run_after(*flags)).micro_batch == 16


@pytest.mark.parametrize("flags", [(), ("--accumulate", "2"), ("--micro-batch", "8")])
def test_the_workers_that_came_share_the_same_micro_batches(flags: tuple[str, ...]) -> None:
    expected = batch_plan.of_run(config.parse(["--kvstore", "dist_sync", "--num-workers", "2", *flags]))
    fewer = batch_plan.of_run(run_after(*flags, num_workers=1))
    assert (fewer.micro_batch, fewer.num_replicas) == (expected.micro_batch, 1)


def test_a_scheduler_refuses_more_min_workers_than_there_are() -> None:
    run = config.parse(["--kvstore", "dist_sync", "--num-workers", "2", "--min-workers", "3"])
    refusal = pytest.raises(UsageError, match="--min-workers 3 is more than the 2 workers of the job")
    with refusal, join.as_server(run, node_spec("scheduler", 1)):
        pass
