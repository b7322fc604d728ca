"""The data of all jobs, and what a job comes to that nothing strikes."""

from __future__ import annotations

import pytest

from tests.faults import samples
from tests.faults.case import DONE_SECONDS
from tests.faults.job import CLUSTER, result, started


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return samples.given(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="session")
def whole(data: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    with started(tmp_path_factory.mktemp("whole"), *data, *CLUSTER) as job:
        assert job.process.wait(DONE_SECONDS) == 0, job.said()
        assert job.traces.left() == []
    return result(job.out)
