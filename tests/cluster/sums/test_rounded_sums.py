"""Two workers whose gradients are rounded by who adds them: the sums, norms and grids of one process, to the bit."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import native
from tests.support.commands import Command
from tests.support.jobs.cluster_jobs import ended, job
from tests.support.jobs.cluster_run import flags
from tests.support.runs import assert_same_end

SHAPES = [(3000,), (7,), (1,), (90, 100), (2, 300)]
# Of each step: factor of its gradients, and a number that stands in a worker's first one.
STEPS: list[tuple[float, dict[int, float]]] = [
    *[(1.0, {})] * 2,
    (2.0**20, {}),
    (1.0, {1: np.nan}),
    (1.0, {0: np.inf}),
    (2.0**70, {}),
    (0.0, {}),
    (1e-38, {}),
    (1.0, {0: 3e38, 1: -3e38}),
    *[(1.0, {})] * 3,
]


def gradients(step: int, position: int) -> list[np.ndarray]:
    factor, extra = STEPS[step]
    rng = np.random.default_rng([step, position])
    found = [(factor * rng.standard_normal(shape)).astype(np.float32) for shape in SHAPES]
    found[0][5] = extra.get(position, found[0][5])
    return found


def sum_over(kvstore: str, group: Any, folder: Path) -> None:
    """Make the steps with another worker, and alone with the gradients of both."""
    from mxtrain.kvstore.trainers.trainer import open_trainer
    from mxtrain.optim.sums import squares
    from mxtrain.optim.sums.exact_gradients import ExactAccumulator
    from mxtrain.optim.sums.grid import Grid
    from mxtrain.runtime import mx

    sizes = [math.prod(shape) for shape in SHAPES]
    grid, alone = Grid(sizes, 2, is_single=True, in_place=True), Grid(sizes, 2)
    parameters = [mx.gluon.Parameter(f"p{n}", shape=shape) for n, shape in enumerate(SHAPES)]
    for parameter in parameters:
        parameter.initialize(mx.init.One())
    trainer = open_trainer(parameters, mx.optimizer.SGD(), kvstore, group=group, grid=grid)
    found: dict[str, list[bool]] = {"left to sums": [grid.is_left_to_sums], "finite": []}
    for step in range(len(STEPS)):
        added = ExactAccumulator(parameters, [mx.cpu()], grid, 1.0, group)
        added.before_backward(mx.cpu())
        with mx.autograd.record():
            own = zip(parameters, gradients(step, group.rank))
            terms = [(parameter.data() * mx.nd.array(each)).sum() for parameter, each in own]
        mx.autograd.backward(terms)
        sums = added.write_sums()
        trainer.start_reduce()
        trainer.finish_reduce()
        assert not added.wide_blocks().any()
        norm, maxima = trainer.gradient_norm(sums), trainer.block_maxima()

        alone.start_step(1.0)
        both = [[each.ravel() for each in gradients(step, position)] for position in range(2)]
        if alone.exponents is None:
            alone.learn(alone.maxima(both[0]))
        for position, each in enumerate(both):
            alone.add(each, is_last=position == 1)
        expected = both[1]
        for one, other in zip(sums, expected):
            assert np.array_equal(one.asnumpy().ravel(), other, equal_nan=True), step
        measured = squares.measure(list(map(mx.nd.array, expected)))
        assert np.array_equal(maxima, alone.maxima(expected), equal_nan=True), step
        is_finite = math.isfinite(norm)
        assert not is_finite or norm == math.sqrt(measured.squares.sum(dtype=np.float64)), step
        found["finite"].append(is_finite)
        added.end_step(is_finite, maxima)
        alone.end_step(expected, is_finite)
        assert np.array_equal(grid.exponents, alone.exponents), step
    (folder / f"{group.rank}.json").write_text(json.dumps(found))


@pytest.mark.skipif(native.OPERATORS is None, reason="mxtrain was installed without a C compiler")
@pytest.mark.parametrize(
    ("kvstore", "num_servers", "is_local"),
    [
        ("dist_sync", 2, True),
        ("allreduce", 0, True),
        pytest.param("dist_sync", 1, True, marks=pytest.mark.slow),
        pytest.param("dist_sync", 1, False, marks=pytest.mark.slow),
    ],
)
def test_sums_and_what_a_step_asks_of_them_are_those_of_one_process(
    tmp_path: Path, kvstore: str, num_servers: int, is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_local:  # servers share no memory with workers, which round for themselves
        monkeypatch.setenv("DMLC_LOCAL", "0")
    with job(tmp_path, functools.partial(sum_over, kvstore), 2, num_servers) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, "".join((tmp_path / f"worker-{n}.log").read_text() for n in (0, 1))
    found = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(2)]
    assert found[0] == found[1] and found[0]["left to sums"] == [is_local]
    assert found[0]["finite"] == [not extra and factor < 2**60 for factor, extra in STEPS]


RUN = "--batch-size 16 --micro-batch 8 --max-steps 20 --optimizer sgd:momentum=0.9 --lr 0.05 --clip-norm 0.5"
MAPPINGS = {
    "servers": "--kvstore dist_sync --num-servers 1",
    "workers": "--kvstore allreduce",
    "workers of two devices": "--kvstore allreduce --devices cpu:0,1",
}


@pytest.mark.slow  # the test above has its sums and all that a step asks of them
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "mapping", ["servers", *(pytest.param(each, marks=pytest.mark.slow) for each in [*MAPPINGS][1:])]
)
def test_a_run_of_two_workers_is_that_of_one_device(
    mapping: str, digits: Path, tmp_path: Path, command: Command
) -> None:
    shared = [*RUN.split(), "--threads", "1"]
    of_job = [*MAPPINGS[mapping].split(), "--num-workers", "2", "--start-timeout", "60"]
    for out, more in (("alone", []), ("job", of_job)):
        done = command("mxtrain.fit", *flags(digits, tmp_path / out, *shared, *more))
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "job", tmp_path / "alone")
