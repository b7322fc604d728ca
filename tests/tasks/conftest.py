"""Each case's data, and its run that nothing disturbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.tasks import cases
from tests.tasks.cases import Case
from tests.tasks.given import NUM_TRAIN, NUM_VAL, Given


@pytest.fixture(scope="session", params=cases.parameters())
def given(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, command: Command
) -> Given:
    case: Case = request.param
    folder = tmp_path_factory.mktemp(case.name)
    case.write(folder, NUM_TRAIN, NUM_VAL)
    return Given(case, folder, command)


@pytest.fixture(scope="session")
def undisturbed(given: Given, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process and one device."""
    out = tmp_path_factory.mktemp("undisturbed")
    given.fit(out)
    return out
