"""Servers that own weights move them as gluon's Trainer does, to the bit, whoever pushes what and first."""

from __future__ import annotations

import functools
import math
import random
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pytest

from mxtrain.config import Optim
from mxtrain.kvstore.owners import layout as layouts
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.owner import GradientSum
from mxtrain.kvstore.owners.remote import RemoteOwners
from mxtrain.optim import optimizers, precision
from mxtrain.optim.sums.grid import BLOCK
from mxtrain.optim.update import Update, unscale_and_clip
from mxtrain.runtime import mx
from tests.support.jobs.owner_jobs import succeed

SHAPES = [(3, 5), (1,), (BLOCK * 70 + 3,), (40, 77), (2, 2), (BLOCK, 3)]
IS_TRAINED = [True, True, True, True, False, True]
# Of steps: what becomes of the sums; None where they are dropped.
UPDATES = [
    Update(0.1, 1 / 64),
    None,
    Update(0.05, 1 / 64 * 0.3, 1 / 1024, 0.01),
    Update(0.02, 1 / 48),
]
slow = pytest.mark.slow


def parameters() -> list[Any]:
    """New parameters with first weights, some with factors of their own."""
    made = []
    for index, (shape, is_trained) in enumerate(zip(SHAPES, IS_TRAINED)):
        each = mx.gluon.Parameter(f"p{index}", shape=shape, grad_req="write" if is_trained else "null")
        each.initialize(mx.init.Zero())
        each.set_data(mx.nd.array(np.random.default_rng(index).normal(size=shape).astype(np.float32)))
        made.append(each)
    made[1].wd_mult, made[3].lr_mult = 0.0, 0.5
    return made


def gradient(rank: int, step: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """A worker's total of a parameter, and which of its blocks have more digits than float32."""
    rng = np.random.default_rng([rank, step, index])
    size = math.prod(SHAPES[index])
    units = rng.integers(-(2**20), 2**20, size).astype(np.float64)
    wide = np.flatnonzero(rng.random(-(-size // BLOCK)) < 0.3)
    for block in wide:
        part = units[block * BLOCK : (block + 1) * BLOCK]
        part[:] = rng.integers(-(2**40), 2**40, len(part))
    return units * 2.0**-20, wide


def train(steps: Sequence[int], begins: bool, rank: int, owners: RemoteOwners, folder: Path) -> None:
    """Push and apply as a step does; the last one of a job writes what there is then, which the next one puts back."""
    trained = [index for index, is_trained in enumerate(IS_TRAINED) if is_trained]
    if rank == 0 and begins:
        for index, each in enumerate(parameters()):
            owners.put(index, each.data().asnumpy().ravel())
    elif rank == 0:
        kept = np.load(folder / "kept.npz")
        for index in range(len(SHAPES)):
            owners.put(index, kept[f"weights{index}"])
        for index in trained:
            owners.write_state(index, [kept[f"{index}.{place}"] for place in range(int(kept[f"num{index}"]))])
        owners.set_update_counts({str(index): int(kept["count"]) for index in trained})
    for step in steps:
        order = random.Random(rank * 100 + step).sample(trained, len(trained))
        for index in order:
            total, wide = gradient(rank, step, index)
            exact = [total[block * BLOCK : (block + 1) * BLOCK] for block in wide]
            owners.push(index, GradientSum(total.astype(np.float32), wide, np.concatenate([[], *exact])))
        sums = owners.finish()
        update = UPDATES[step]
        owners.drop() if update is None else owners.apply(update)
        weights = [np.empty(math.prod(shape), np.float32) for shape in SHAPES]
        owners.pull(range(len(SHAPES)), weights).wait()
        found = {f"weights{index}": array for index, array in enumerate(weights)}
        np.savez(folder / f"{rank}-{step}.npz", squares=sums.squares, maxima=sums.maxima, **found)
    if rank == 0:
        states = {index: owners.read_state(index) for index in trained}
        arrays = {f"{index}.{place}": each for index in trained for place, each in enumerate(states[index])}
        numbers = {f"num{index}": len(states[index]) for index in trained}
        (count,) = set(owners.update_counts().values())
        assert len(owners.update_counts()) == len(trained)
        np.savez(folder / "kept.npz", count=count, **found, **arrays, **numbers)


def layout_of(optim: Optim) -> Layout:
    return layouts.of_parameters(parameters(), optim)


def by_gluon(optim: Optim, num_workers: int) -> list[dict[str, np.ndarray]]:
    """What gluon's Trainer in this process makes of the sums, after each step."""
    made = parameters()
    trainer = mx.gluon.Trainer(made, optimizers.build(optim), kvstore=None)
    found = []
    for step, update in enumerate(UPDATES):
        sums = []
        for index, each in enumerate(made):
            if each.grad_req != "null":
                total = sum(gradient(rank, step, index)[0] for rank in range(num_workers))
                each.grad()[:] = mx.nd.array(total.astype(np.float32).reshape(each.shape))
                each.data()._fresh_grad = True  # as a backward pass leaves it
                sums.append(each.grad())
        flat = [each.asnumpy().ravel() for each in sums]
        maxima = [np.maximum.reduceat(abs(each), np.arange(0, len(each), BLOCK)) for each in flat]
        arrays = {"maxima": np.concatenate(maxima), "norm": precision.l2_norm(sums)}
        if update is not None:
            unscale_and_clip(sums, update)
            trainer.set_learning_rate(update.rate)
            trainer._scale = update.factor
            trainer.update(1)
        found.append(
            {**arrays, **{f"weights{i}": each.data().asnumpy().ravel() for i, each in enumerate(made)}}
        )
    return found


def assert_as_gluon(folder: Path, optim: Optim, num_workers: int) -> None:
    for step, expected in enumerate(by_gluon(optim, num_workers)):
        for rank in range(num_workers):
            found = dict(np.load(folder / f"{rank}-{step}.npz"))
            assert math.sqrt(found.pop("squares").sum(dtype=np.float64)) == expected["norm"]
            assert all(np.array_equal(array, expected[name]) for name, array in found.items())


@pytest.mark.parametrize(
    ("optimizer", "num_workers", "num_servers"),
    [
        ("sgd", 2, 2),
        ("lamb", 3, 1),
        *(
            pytest.param(optimizer, workers, servers, marks=slow)
            for number, optimizer in enumerate(
                ("adam", "adamw", "nadam", "ftml", "rmsprop", "lars", "sgd:momentum=0")
            )
            for workers, servers in ((1, 1 + number % 3), (2, 7), (3, 3))
        ),
    ],
)
def test_weights_are_those_of_gluons_trainer(
    tmp_path: Path, optimizer: str, num_workers: int, num_servers: int
) -> None:
    optim = Optim(optimizer=optimizer, weight_decay=0.01)
    work = functools.partial(train, range(len(UPDATES)), True)
    succeed(tmp_path, num_workers, num_servers, layout_of(optim), work)
    assert_as_gluon(tmp_path, optim, num_workers)


def test_another_number_of_servers_goes_on(tmp_path: Path) -> None:
    optim = Optim(optimizer="adam")
    for steps, num_servers in ((range(2), 1), (range(2, len(UPDATES)), 3)):
        work = functools.partial(train, steps, steps[0] == 0)
        succeed(tmp_path, 2, num_servers, layout_of(optim), work)
    assert_as_gluon(tmp_path, optim, 2)
