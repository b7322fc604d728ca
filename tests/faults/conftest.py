"""The data of all jobs, and the result of a job without any fault."""

from __future__ import annotations

import pytest

from tests.faults import samples
from tests.faults.case import DONE_SECONDS
from tests.faults.job import CLUSTER, result, started


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return samples.data_flags(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="session")
def undisturbed(data: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    with started(tmp_path_factory.mktemp("undisturbed"), *data, *CLUSTER) as job:
        assert job.process.wait(DONE_SECONDS) == 0, job.output()
        assert job.traces.left_behind() == []
    return result(job.out)
