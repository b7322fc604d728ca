"""What every task is promised over a cluster: the bits of one process, also after a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import strike
from tests.faults.case import Case as Fault
from tests.faults.job import LENGTH, result
from tests.support.runs import assert_same_end
from tests.tasks.given import Given


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "count", [2, pytest.param(4, marks=pytest.mark.slow)]
)  # two workers hold it in small
def test_workers_learn_it_to_the_bit(count: int, given: Given, undisturbed: Path, tmp_path: Path) -> None:
    given.fit(tmp_path, f"--kvstore dist_sync --start-timeout 60 --num-workers {count} {given.case.store}")
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.slow  # tests/faults/test_matrix.py has classification's
@pytest.mark.timeout(400)
def test_a_job_recovers_from_a_fault(given: Given, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    given.case.write(data, 128, 600)  # an evaluation on so many is long enough for faults to hit it
    flags = [*given.case.flags.split(), "--train", str(data / "train.rec"), "--val", str(data / "val.rec")]
    done = given.command("mxtrain.fit", "--out", tmp_path / "alone", *LENGTH, *flags)
    assert done.returncode == 0, done.stderr
    fault = Fault("worker-1", "SIGKILL", "mid-epoch")
    flags += given.case.store.split()
    (outcome,) = strike.strike([fault], tmp_path, flags, result(tmp_path / "alone"))
    assert outcome.kind == strike.RECOVERED, outcome.output
