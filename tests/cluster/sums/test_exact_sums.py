"""Gradients and running statistics over workers: to the bit what one process adds, whatever their digits."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.models.parameters import running_statistics
from tests.support.jobs.cluster_jobs import ended, job

SHAPES = [(3000,), (7,), (1,), (90, 100), (2, 300)]
NUM = 7  # micro-batches of a step
# Of each step: factor of its gradients, and numbers that stand in a micro-batch's first array.
STEPS: list[tuple[float, dict[int, float]]] = [
    (1.0, {}),
    (1.0, {}),
    (2.0**20, {}),
    (2.0**20, {}),
    (2.0**10, {}),
    (1.0, {4: np.nan}),
    (1.0, {5: np.inf}),
    (2.0**70, {}),
    (2.0**70, {}),
    (0.0, {}),
    (1e-38, {}),
    (1.0, {2: 3e38, 6: -3e38}),
    (1.0, {}),
    (2.0**6, {}),  # each worker's float32 would do, the sum's digits not
    *[(1.0, {})] * 4,  # units shrink by a few bits a step
]
LARGE = (
    614.0  # in the last step: some 2**23 units, and more digits in a part than there may be with these signs
)
SIGNS = {0: 1, 1: 1, 2: -2}


def gradients(step: int, position: int) -> list[np.ndarray]:
    factor, extra = STEPS[step]
    rng = np.random.default_rng([step, position])
    found = [(factor * rng.standard_normal(shape)).astype(np.float32) for shape in SHAPES]
    found[0][5] = extra.get(position, found[0][5])
    if step == len(STEPS) - 1:
        found = [array + np.float32(LARGE * SIGNS.get(position, 0)) for array in found]
    return [array.ravel() for array in found]


def totals(of: Any, step: int, positions: range) -> list[np.ndarray]:
    of.start_step(1.0)
    if of.exponents is None:
        of.learn(of.maxima(gradients(step, 0)))
    added: list[np.ndarray] = []
    for position in positions:
        added = gradients(step, position)
        of.add(added, is_last=position == positions[-1])
    return added


def add_over_workers(group: Any, folder: Path) -> None:
    from mxtrain.kvstore import limbs
    from mxtrain.kvstore.buckets import Buckets
    from mxtrain.kvstore.store import open_store
    from mxtrain.optim.sums.grid import Grid, exact_bits
    from mxtrain.runtime import mx

    kvstore = "dist_sync" if group.assignment.num_servers else "allreduce"
    buckets = Buckets(open_store(kvstore, group), SHAPES, bucket_mb=0.008)
    sizes = [int(np.prod(shape)) for shape in SHAPES]
    limbs.AT_A_TIME = 4
    wide_blocks = limbs.WideBlocks(buckets.kv, sizes)
    shared, alone = Grid(sizes, NUM), Grid(sizes, NUM)
    found: dict[str, list[Any]] = {
        "wide": [],
        "same": [],
        "finite": [],
        "blocks": [int(shared.ends[-1])],
        "buckets": [len(buckets.buckets)],
        "memory": [len(group.memory_sockets)],
    }
    for step in range(len(STEPS)):
        expected = totals(alone, step, range(NUM))
        own = totals(shared, step, range(group.rank, NUM, group.world_size))
        is_wide = shared.are_beyond(exact_bits(group.world_size))
        arrays = [mx.nd.array(numbers.reshape(shape)) for numbers, shape in zip(own, SHAPES)]
        buckets.start_allreduce(arrays)
        buckets.finish_allreduce(arrays)
        sums = [array.asnumpy().ravel() for array in arrays]
        num_wide = np.count_nonzero(group.sum(is_wide))
        if num_wide:
            wide_blocks.sum_again(is_wide, shared, sums)
        is_finite = all(np.isfinite(each).all() for each in expected)
        found["same"].append(all(np.array_equal(*pair, equal_nan=True) for pair in zip(sums, expected)))
        found["wide"].append(num_wide)
        found["finite"].append(is_finite)
        for grid, ended_with in ((shared, sums), (alone, expected)):
            grid.end_step(ended_with, is_applied=is_finite)
        assert np.array_equal(shared.exponents, alone.exponents)
    found["statistics"] = sum_statistics(group, buckets.kv).tolist()
    found["seconds"] = sums_travel_while_others_are_computed(group, buckets.kv)
    (folder / f"{group.rank}.json").write_text(json.dumps(found))


def statistics(position: int) -> np.ndarray:
    rng = np.random.default_rng(position)
    return (np.exp2(np.linspace(-40, 39, 5000)) * rng.standard_normal(5000)).astype(np.float32)


def sum_statistics(group: Any, kv: Any) -> np.ndarray:
    from mxtrain.core import limbs
    from mxtrain.kvstore.buckets import Buckets
    from mxtrain.models.parameters.running_statistics import UNITS, add_limbs, sum_of_limbs
    from mxtrain.runtime import mx

    own = np.zeros((len(UNITS), 5000))
    for position in range(group.rank, NUM, group.world_size):
        add_limbs(own, statistics(position), weight=1 / 8)
    limbs.carry(own, UNITS)
    sent = [mx.nd.array(own)]
    buckets = Buckets(kv, [own.shape], bucket_mb=0.008, name="statistics")
    buckets.start_allreduce(sent)
    buckets.finish_allreduce(sent)
    return sum_of_limbs(sent[0].asnumpy())


def sums_travel_while_others_are_computed(group: Any, kv: Any) -> list[float]:
    """Of two gradients, a bucket each, the last is there at once; return when its sum is, and when the first."""
    from mxtrain.kvstore.buckets import Buckets
    from mxtrain.kvstore.store import wait_for
    from mxtrain.optim.sums.exact_gradients import ExactAccumulator
    from mxtrain.optim.sums.grid import Grid
    from mxtrain.runtime import mx

    shape, seconds = (500, 500), [0.0, 0.0]
    buckets = Buckets(kv, [shape, shape], bucket_mb=1, name="overlapping")
    slow, at_once = buckets.views
    grid, parameters = (
        Grid([slow.size, at_once.size], NUM),
        [mx.gluon.Parameter(n, shape=shape) for n in "ab"],
    )
    for parameter, view in zip(parameters, buckets.views):
        parameter.initialize(mx.init.One())
        parameter._grad[0] = view
    for length in (1, 40):  # the first step learns a grid, for which it waits
        added = ExactAccumulator(parameters, [mx.cpu()], grid, 1.0, group)
        group.sum([0.0])
        began, square = time.monotonic(), mx.nd.ones(shape) / shape[0]
        for parameter in parameters:
            parameter.data()._fresh_grad = True
        at_once[:] = 1
        for _ in range(length):
            square = mx.nd.dot(square, square)
        mx.nd.dot(square, square, out=slow)
        sums = added.write_sums()
        buckets.start_allreduce(sums)
        for number, (bucket, array) in enumerate(zip(buckets.buckets, (at_once, slow))):
            wait_for(kv, bucket.key)
            array.wait_to_read()
            seconds[number] = time.monotonic() - began
        mx.nd.waitall()
        assert (at_once.asnumpy() == group.world_size).all()
        added.end_step(True)
    return seconds


@pytest.mark.parametrize(
    ("num_workers", "num_servers", "over_tcp"),
    [
        (3, 2, False),
        *(
            pytest.param(*numbers, over_tcp, marks=pytest.mark.slow)
            for over_tcp, of_jobs in (
                (False, ((2, 1), (5, 1), (2, 0), (3, 0), (5, 0))),
                (True, ((2, 1), (3, 2), (5, 1))),
            )
            for numbers in of_jobs
        ),
    ],
)
def test_workers_have_the_sums_of_one_process_to_the_bit(
    tmp_path: Path, num_workers: int, num_servers: int, over_tcp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if over_tcp:  # where servers share no memory with workers
        monkeypatch.setenv("DMLC_LOCAL", "0")
    with job(tmp_path, add_over_workers, num_workers, num_servers) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, (tmp_path / "worker-0.log").read_text()
    found = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(num_workers)]
    for arrived, computed in (each.pop("seconds") for each in found):
        assert native.new_addition is None or arrived < computed / 2, f"{arrived:.2f} s, {computed:.2f} s"
    assert all(each == found[0] for each in found)
    assert found[0]["same"] == [True] * len(STEPS)
    exact = [math.fsum(column) / 8 for column in zip(*(statistics(position) for position in range(NUM)))]
    np.testing.assert_allclose(found[0]["statistics"], exact, rtol=2**-50, atol=NUM * 2**-69)
    assert running_statistics.num_rows(NUM) < NUM
    assert found[0]["memory"] == [0 if over_tcp else num_servers]
    wide, (num_blocks,) = found[0]["wide"], found[0]["blocks"]
    assert found[0]["buckets"][0] > len(SHAPES), "an array is split"
    assert wide[1] == 0 and wide[2] == wide[-1] == num_blocks, "grown sums have more digits than float32"
    assert found[0]["finite"] == [True] * 5 + [False] * 3 + [True] * 3 + [False] + [True] * 6
