"""Updates by a server, for every optimizer that it may get."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Optim
from mxtrain.config.components.optimizers import OPTIMIZERS
from mxtrain.kvstore import unpickle
from mxtrain.kvstore.commands import ApplyUpdates, Assign, SetLearningRate
from mxtrain.kvstore.server import known_classes
from mxtrain.kvstore.server_updater import CLOCK, ServerUpdater
from mxtrain.optim import optimizers
from mxtrain.optim.optimizer_state import state_arrays
from mxtrain.runtime import mx

STRIDE = 4
KEYS = (1, 2)


def received(name: str) -> Any:
    """Return an optimizer as a server has it: pickled by a worker, and read."""
    optimizer = optimizers.build(Optim(optimizer=name, lr=0.05, weight_decay=0.1))
    optimizer.wd_mult, optimizer.lr_mult = {1: 0.0}, {2: 0.5}
    found = unpickle.loads(pickle.dumps(optimizer, 0), known_classes())
    assert type(found) is type(optimizer) and vars(found) == vars(optimizer)
    return found


def gradient(step: int, key: int) -> Any:
    return mx.nd.array(np.random.default_rng([step, key]).normal(size=6))


class Store:
    """Keys and their arrays, as ps-lite keeps them on a server."""

    def __init__(self, optimizer: Any):
        self.updates = ServerUpdater(optimizer)
        self.arrays: dict[int, Any] = {}

    def assign(self, arrays: dict[int, Any], num_updates: int) -> None:
        self.updates.execute(Assign(STRIDE))
        for key, array in arrays.items():
            self.updates(key, array, self.arrays.setdefault(key, mx.nd.zeros(array.shape, dtype=array.dtype)))
        self.updates.execute(ApplyUpdates(num_updates))

    def train(self, first: int, last: int) -> None:
        for step in range(first, last):
            self.updates.execute(SetLearningRate(0.05 / (1 + step)))
            for key in KEYS:
                self.updates(key, gradient(step, key), self.arrays[key])

    def kept(self) -> dict[int, np.ndarray[Any, Any]]:
        return {key: array.asnumpy() for key, array in self.arrays.items()}


def beginning(optimizer: Any) -> dict[int, Any]:
    weights = {key: mx.nd.array(np.linspace(-1, 1, 6)) * key for key in KEYS}
    states = {key: state_arrays(optimizer.create_state(key, weight)) for key, weight in weights.items()}
    places = {key + STRIDE * (place + 1): array for key in KEYS for place, array in enumerate(states[key])}
    return {CLOCK: mx.nd.zeros(3, dtype="float64"), **weights, **places}


@pytest.mark.parametrize(
    "name", [name for name in OPTIMIZERS if name not in ("lamb", "lars")] + ["rmsprop:centered=1"]
)
def test_a_server_updates_as_a_worker_would_and_resumes_from_what_was_pulled(name: str) -> None:
    start = beginning(received(name))
    plain = mx.optimizer.get_updater(received(name))
    weights = {key: start[key].copy() for key in KEYS}
    for step in range(6):
        plain.optimizer.set_learning_rate(0.05 / (1 + step))
        for key in KEYS:
            plain(key, gradient(step, key), weights[key])

    whole = Store(received(name))
    whole.assign(start, 0)
    whole.train(0, 3)
    kept = {key: mx.nd.array(array, dtype=array.dtype) for key, array in whole.kept().items()}
    whole.train(3, 6)
    later = Store(received(name))
    later.assign(kept, 3)
    later.train(3, 6)

    for key in KEYS:
        assert (whole.arrays[key].asnumpy() == weights[key].asnumpy()).all()
    for key, array in whole.kept().items():
        assert (later.arrays[key].asnumpy() == array).all(), key
    assert len(start) == 1 + len(KEYS) * (1 + len(state_arrays(plain.states[1]))), "a state was not kept"


def test_the_clock_counts_the_updates_between_two_of_a_worker() -> None:
    store = Store(received("sgd"))
    store.assign({CLOCK: mx.nd.array([10, 0, 0], dtype="float64")}, 10)
    for worker in (1, 2, 2, 1):
        store.updates(
            CLOCK, mx.nd.one_hot(mx.nd.array([worker]), 3)[0].astype("float64"), store.arrays[CLOCK]
        )
    assert store.arrays[CLOCK].asnumpy().tolist() == [14, 13, 12]


def test_stock_workers_are_served_as_by_a_stock_server() -> None:
    updates, weight = ServerUpdater(mx.optimizer.SGD(learning_rate=0.5)), mx.nd.ones(4)
    updates(0, mx.nd.ones(4), weight)
    assert weight.asnumpy().tolist() == [0.5] * 4
