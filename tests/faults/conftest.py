"""The data of all jobs, and what a job comes to that nothing strikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import samples
from tests.faults.case import DONE_SECONDS
from tests.faults.job import CLUSTER, NUM_SAMPLES, result, started


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.pack(tmp_path_factory.mktemp("faults") / "data", NUM_SAMPLES)


@pytest.fixture(scope="session")
def whole(train: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    with started(tmp_path_factory.mktemp("whole"), "--train", str(train), *CLUSTER) as job:
        assert job.process.wait(DONE_SECONDS) == 0, job.said()
        assert job.traces.left() == []
    return result(job.out)
