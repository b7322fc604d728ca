"""Rows on servers are, to the bit, those of one process, whoever pushes what and asks for which rows in advance."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest

from mxtrain.config import Optim
from mxtrain.core import exact_sum
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners.remote import RemoteOwners
from mxtrain.kvstore.tables.local import LocalTables
from mxtrain.kvstore.tables.owner import RowGradients, TableOwners
from mxtrain.kvstore.tables.remote import RemoteTables
from mxtrain.optim.update import Update
from mxtrain.tables.options import TableOptions
from tests.support.jobs.owner_jobs import succeed

TABLES = [
    TableOptions("users", 5, seed=3, optimizer="adam", scale=0.5),
    TableOptions("words", 2, seed=3, admit_after=2, expire_after=3),
]
NUM_STEPS, NUM_POSITIONS, NUM_IDS = 9, 6, 60
ALL_IDS = np.random.default_rng(7).integers(-(1 << 62), 1 << 62, NUM_IDS)
slow = pytest.mark.slow


def use(step: int, position: int, table: int, place: int) -> RowGradients:
    """The gradients of one use of a table in a micro-batch: of magnitudes whose sums depend on their order."""
    rng = np.random.default_rng([step, position, table, place])
    ids = np.unique(rng.choice(ALL_IDS, rng.integers(1, NUM_IDS)))
    shape = len(ids), TABLES[table].width
    gradients = rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, (len(ids), 1))
    return RowGradients(position, place, ids, gradients.astype(np.float32))


def decision(step: int) -> Update | None:
    return (
        None
        if step == 2
        else Update(0.1 / (step + 1), 1 / 64, 1 / 1024 if step % 2 else 1.0, 3.0 if step > 4 else 0.0)
    )


def go_on(owners: TableOwners, steps: Sequence[int], rank: int, num_workers: int, decide: Any) -> list[Any]:
    """Train as a step does, and return what was seen: squares, and rows that were asked for in three ways."""
    found = []
    ahead = [owners.prefetch(table, ALL_IDS[:0]) for table in range(len(TABLES))]
    for step in steps:
        for position in random.Random(step).sample(range(NUM_POSITIONS), NUM_POSITIONS):
            if position % num_workers != rank:
                continue
            for table in range(len(TABLES)):
                for place in range(2):
                    owners.push(table, use(step, position, table, place))
        ahead = [owners.prefetch(table, ALL_IDS[step:]) for table in range(len(TABLES))]
        squares = owners.finish()
        assert squares is not None
        decide(decision(step))
        for table, pull in enumerate(ahead):
            now = owners.pull(table, ALL_IDS).wait()
            assert np.array_equal(pull.wait(), now[step:]) and pull.arrived is not None
            found += [str(squares), now.tobytes(), owners.num_rows(table)]
    return found


def alone(steps: Sequence[int], folder: Path | None = None) -> list[Any]:
    owners = LocalTables(TABLES)
    if folder is not None:
        owners.read(folder)
    return go_on(
        owners, steps, 0, 1, lambda update: owners.drop() if update is None else owners.apply(update)
    )


def work(
    steps: Sequence[int], num_workers: int, kept: Path | None, rank: int, servers: RemoteOwners, folder: Path
) -> None:
    owners = RemoteTables(servers.links, TABLES)
    if kept is not None and rank == 0:
        owners.read(kept)

    def decide(update: Update | None) -> None:
        servers.finish()
        servers.drop() if update is None else servers.apply(update)
        owners.end_step()

    servers.drop()  # a step in which nothing happens, so that all are there and see what was read
    owners.end_step()
    found = go_on(owners, steps, rank, num_workers, decide)
    if rank == 0:
        owners.begin(folder / "rows", None)
        owners.write(lambda: None)
    (folder / f"{rank}.txt").write_text(repr(found))


def on_servers(
    folder: Path, num_workers: int, num_servers: int, steps: Sequence[int], kept: Path | None = None
) -> None:
    (folder / "rows").mkdir(parents=True)
    layout = layouts.of_parameters([], Optim())
    succeed(folder, num_workers, num_servers, layout, functools.partial(work, steps, num_workers, kept))


@pytest.mark.parametrize(
    ("num_workers", "num_servers"),
    [(2, 2), *(pytest.param(*each, marks=slow) for each in [(1, 1), (1, 3), (3, 1), (3, 2), (4, 3)])],
)
def test_rows_are_those_of_one_process(num_workers: int, num_servers: int, tmp_path: Path) -> None:
    on_servers(tmp_path, num_workers, num_servers, range(NUM_STEPS))
    expected = repr(alone(range(NUM_STEPS)))
    for rank in range(num_workers):
        assert (tmp_path / f"{rank}.txt").read_text() == expected


@slow
@pytest.mark.parametrize("num_servers", [(1, 3), (3, 2)])
def test_rows_go_on_from_files_on_other_numbers_of_servers(
    num_servers: tuple[int, int], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    on_servers(first, 2, num_servers[0], range(5))
    on_servers(second, 3, num_servers[1], range(5, NUM_STEPS), first / "rows")
    whole = alone(range(NUM_STEPS))
    assert (second / "0.txt").read_text() == repr(whole[3 * len(TABLES) * 5 :])
    assert alone(range(5, NUM_STEPS), first / "rows") == whole[3 * len(TABLES) * 5 :]


def test_a_gradient_that_is_no_number_has_no_squares_and_a_drop_leaves_rows_as_they_were() -> None:
    owners = LocalTables(TABLES)
    before = owners.pull(0, ALL_IDS).wait()
    gradients = use(0, 0, 0, 0)
    owners.push(0, gradients)
    squares = owners.finish()
    assert squares is not None
    exact = np.square(gradients.gradients.astype(np.float64)).sum()
    assert exact_sum.to_float(squares) == pytest.approx(exact, rel=1e-12)
    owners.drop()
    gradients.gradients[0, 0] = np.nan
    owners.push(0, gradients)
    assert owners.finish() is None
    owners.drop()
    assert np.array_equal(owners.pull(0, ALL_IDS).wait(), before) and owners.num_rows(0) == 0
    assert owners.finish() == 0
