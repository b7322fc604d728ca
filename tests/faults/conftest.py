"""The data of all jobs, and what they are to end with."""

from __future__ import annotations

import pytest

from tests.faults import samples
from tests.faults.case import DONE_SECONDS
from tests.faults.job import FLAGS, LENGTH, OF_TABLES, result
from tests.support.commands import Command


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return samples.data_flags(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="session")
def undisturbed(
    data: list[str], tmp_path_factory: pytest.TempPathFactory, command: Command
) -> tuple[object, ...]:
    """The result of one process."""
    return _result(FLAGS, data, tmp_path_factory, command)


@pytest.fixture(scope="session")
def held_undisturbed(
    data: list[str], tmp_path_factory: pytest.TempPathFactory, command: Command
) -> tuple[object, ...]:
    """The result of one process that holds one segment at a time."""
    return _result([*FLAGS, "--hold", "layers"], data, tmp_path_factory, command)


@pytest.fixture(scope="session")
def undisturbed_tables(
    data: list[str], tmp_path_factory: pytest.TempPathFactory, command: Command
) -> tuple[object, ...]:
    """The result of one process whose net has a table."""
    found = _result([*OF_TABLES, *LENGTH], data, tmp_path_factory, command)
    assert found[-1]  # rows
    return found


def _result(
    flags: list[str], data: list[str], tmp_path_factory: pytest.TempPathFactory, command: Command
) -> tuple[object, ...]:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = command("mxtrain.fit", "--out", out, *flags, *data, timeout=DONE_SECONDS)
    assert done.returncode == 0, done.stderr
    return result(out)
