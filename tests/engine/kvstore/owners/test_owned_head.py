"""A head whose chunks lie on servers trains to the same bits on any workers and servers, and as a whole one does."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Optim
from mxtrain.kvstore.owners.layout import Layout
from mxtrain.kvstore.owners.owned_head import OwnedArray, OwnedHead
from mxtrain.kvstore.owners.owner import GradientSum
from mxtrain.kvstore.owners.remote import RemoteOwners
from mxtrain.models import losses
from mxtrain.models.heads.chunked_head import Samples
from mxtrain.models.heads.cosine_head import CosineHead
from mxtrain.models.heads.margins import of_loss
from mxtrain.optim.sums.grid import NO_BLOCKS, Grid
from mxtrain.optim.update import Update
from mxtrain.runtime import mx
from tests.support.jobs.owner_jobs import succeed

LENGTHS, WIDTH, STEPS, NUM_MICRO_BATCHES, SAMPLES = [3000, 2048, 5], 12, 3, 4, 5
CLASSES = sum(LENGTHS)
OPTIM = Optim(optimizer="adam", weight_decay=0.01)
RATE = 0.01
slow = pytest.mark.slow


def first_weights() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32)


def layout() -> Layout:
    """A parameter for each chunk, behind one that is not the head's."""
    shapes = [[7], *([length, WIDTH] for length in LENGTHS)]
    names = ["body", *(f"chunk{number}_weight" for number in range(len(LENGTHS)))]
    ones = [1.0] * len(shapes)
    return Layout(names, shapes, [False, True, True, True], ones, ones, vars(OPTIM))


def micro_batch(step: int, position: int) -> Samples:
    rng = np.random.default_rng([step, position])
    features = rng.normal(size=(SAMPLES, WIDTH)).astype(np.float32)
    return Samples(features, rng.integers(0, CLASSES, SAMPLES))


def train(loss: str, num_workers: int, rank: int, owners: RemoteOwners, folder: Path) -> None:
    """Train; a worker whose rank is that of no micro-batch of a step only takes part."""
    grid = Grid([length * WIDTH for length in LENGTHS], NUM_MICRO_BATCHES)
    chunks = [
        [OwnedArray(place + 1, (length, WIDTH), grid.blocks_of(place))]
        for place, length in enumerate(LENGTHS)
    ]
    head = OwnedHead(owners, chunks, of_loss(loss))
    if rank == 0:
        owners.put(0, np.zeros(7, np.float32))
        for index, weights in enumerate(np.split(first_weights(), np.cumsum(LENGTHS)[:-1])):
            owners.put(index + 1, weights.ravel())
        (folder / "begun").touch()
    while not (folder / "begun").exists():  # who pulls before has zeros
        time.sleep(0.01)
    found: dict[str, Any] = {}
    for step in range(STEPS):
        grid.start_step(1.0)
        own = range(rank, NUM_MICRO_BATCHES, num_workers)
        samples = [micro_batch(step, position) for position in own]
        if grid.exponents is None:  # which all take from the first micro-batch
            first = [micro_batch(step, 0)]
            maxima = np.zeros(grid.ends[-1], np.float32)
            head.largest(first[0], head.forward(first)[0], maxima)
            grid.learn(maxima)
        forward = head.forward(samples)
        of_features = head.backward(samples, forward, grid, owners.push) if samples else []
        for index, length in enumerate([] if samples else LENGTHS):
            owners.push(index + 1, GradientSum(np.zeros(length * WIDTH, np.float32), *NO_BLOCKS))
        for position, each, gradient in zip(own, forward, of_features):
            found[f"losses{step}.{position}"], found[f"features{step}.{position}"] = each.losses, gradient
        grid.follow(owners.finish().maxima, True)
        owners.apply(Update(RATE, 1 / (NUM_MICRO_BATCHES * SAMPLES)))
    weights = [np.empty(length * WIDTH, np.float32) for length in LENGTHS]
    owners.pull([1, 2, 3], weights).wait()
    np.savez(folder / f"{rank}.npz", weights=np.concatenate(weights), **found)


def trained(folder: Path, loss: str, num_workers: int, num_servers: int) -> dict[str, np.ndarray]:
    """All that workers have computed, by micro-batch, and the weights, which all have."""
    folder.mkdir()
    succeed(folder, num_workers, num_servers, layout(), functools.partial(train, loss, num_workers))
    of_workers = [dict(np.load(folder / f"{rank}.npz")) for rank in range(num_workers)]
    assert all(np.array_equal(each["weights"], of_workers[0]["weights"]) for each in of_workers)
    return {name: array for each in of_workers for name, array in each.items()}


def by_gluon(loss: str) -> tuple[np.ndarray, np.ndarray]:
    """The losses of all steps and the last weights of a whole head that gluon's Trainer trains."""
    layer: Any = mx.gluon.nn.Dense(CLASSES, use_bias=False, in_units=WIDTH)
    margin = of_loss(loss)
    net = layer if margin is None else CosineHead(layer, margin.scale)
    net.initialize()
    net.weight.set_data(mx.nd.array(first_weights()))
    settings = {"learning_rate": RATE, "wd": OPTIM.weight_decay}
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", settings, kvstore=None)
    found = []
    for step in range(STEPS):
        samples = [micro_batch(step, position) for position in range(NUM_MICRO_BATCHES)]
        data, label = (
            mx.nd.array(np.concatenate([getattr(each, name) for each in samples]))
            for name in Samples._fields[:2]
        )
        with mx.autograd.record():
            result = losses.build(loss, 0.0, CLASSES)(net(data), label)
        result.backward()
        trainer.step(len(label))
        found.append(result.asnumpy())
    return np.concatenate(found), net.weight.data().asnumpy().ravel()


@pytest.mark.parametrize(
    ("loss", "mappings"),
    [
        ("arcface:scale=16,margin=0.4", [(1, 1), (2, 2)]),
        pytest.param("cross_entropy", [(1, 2), (2, 1), (3, 3), (5, 2)], marks=slow),
        pytest.param("cosface:scale=32,margin=0.2", [(1, 3), (4, 1), (5, 1)], marks=slow),
    ],
)
def test_a_head_on_servers_is_the_same_for_any_workers_and_as_a_whole_one(
    tmp_path: Path, loss: str, mappings: list[tuple[int, int]]
) -> None:
    one, *others = (
        trained(tmp_path / f"{workers}-{servers}", loss, workers, servers) for workers, servers in mappings
    )
    for other in others:
        assert one.keys() == other.keys()
        assert all(np.array_equal(array, other[name]) for name, array in one.items())
    expected, weights = by_gluon(loss)
    names = [f"losses{step}.{position}" for step in range(STEPS) for position in range(NUM_MICRO_BATCHES)]
    np.testing.assert_allclose(np.concatenate([one[name] for name in names]), expected, rtol=1e-4)
    # Adam's first steps go by the signs of gradients, some of which are next to nothing.
    apart = np.abs(one["weights"] - weights)
    assert np.mean(apart) < 1e-5 and np.mean(apart > 1e-4) < 1e-2
    assert np.abs(weights - first_weights().ravel()).mean() > RATE / 2
