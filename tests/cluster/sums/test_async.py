"""dist_async: the optimizer runs on the servers, with the updates that it makes in one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.breadth import slow_cases
from tests.support.jobs.cluster_jobs import ended, job

NUM_STEPS = 12


def net(seed: int = 7) -> Any:
    """Layers with weights large enough to be cut among servers here, and with biases that lie on one server."""
    from mxtrain.optim.weight_decay import exempt_from_decay
    from mxtrain.runtime import mx

    mx.random.seed(seed)
    layers = mx.gluon.nn.HybridSequential()
    # A bias before a norm has a gradient of rounding errors, which Adam makes as large as any.
    layers.add(mx.gluon.nn.Dense(16, in_units=8, use_bias=False), mx.gluon.nn.BatchNorm(in_channels=16))
    layers.add(mx.gluon.nn.Dense(4, in_units=16))
    layers.initialize(mx.init.Xavier())
    exempt_from_decay(layers.collect_params().values())
    layers.collect_params()[layers[2].weight.name].lr_mult = 0.5
    return layers


def backward(layers: Any, step: int, worker: int = 0) -> tuple[int, float]:
    """Gradients of a batch that is shorter every third time; its size and its mean loss."""
    from mxtrain.runtime import mx

    rng = np.random.default_rng([step, worker])
    num_samples = 5 if step % 3 == 2 else 8
    data = mx.nd.array(rng.normal(size=(num_samples, 8)))
    with mx.autograd.record():
        losses = ((layers(data) - data[:, :4] * 2) ** 2).sum(axis=1)
    losses.backward()
    return num_samples, float(losses.mean().asscalar())


def rate_of(step: int) -> float:
    return 0.02 / (1 + step // 2)


def trained_alone(optimizer: Any) -> list[np.ndarray[Any, Any]]:
    from mxtrain.runtime import mx

    layers = net()
    trainer = mx.gluon.Trainer(list(layers.collect_params().values()), optimizer, kvstore=None)
    for step in range(NUM_STEPS):
        num_samples, _ = backward(layers, step)
        trainer.set_learning_rate(rate_of(step))
        trainer.step(num_samples)
    return weights(layers)


def weights(layers: Any) -> list[np.ndarray[Any, Any]]:
    return [each.data().asnumpy() for each in layers.collect_params().values() if each.grad_req != "null"]


def built(name: str) -> Any:
    from mxtrain.config import Optim
    from mxtrain.optim import optimizers

    return optimizers.build(Optim(optimizer=name, lr=0.02, weight_decay=0.1))


def train(servers: Any, layers: Any, first: int, last: int) -> list[int]:
    return [servers.push_pull(rate_of(step), 1 / backward(layers, step)[0]) for step in range(first, last)]


def compare(name: str, group: Any, folder: Path) -> None:
    """One worker alone is synchronous: its curve is that of a trainer without a store, also across save and load."""
    from mxtrain.kvstore.server_client import ServerClient

    layers = net()
    servers = ServerClient(list(layers.collect_params().values()), built(name), "dist_async", group)
    staleness = train(servers, layers, 0, 5)
    kept, (state, num_updates) = weights(layers), servers.save()
    train(servers, layers, 5, 9)  # what load takes back
    for parameter, weight in zip(servers.trained.values(), kept):
        parameter.set_data(weight)
    servers.load(state, num_updates)
    staleness += train(servers, layers, 5, NUM_STEPS)
    alone = trained_alone(built(name))
    differences = [float(np.abs(a - b).max()) for a, b in zip(weights(layers), alone)]
    found = {"differences": differences, "staleness": staleness, "updates": [num_updates, servers.save()[1]]}
    (folder / "found.json").write_text(json.dumps(found))


def compare_sgd(group: Any, folder: Path) -> None:
    compare("sgd", group, folder)


def compare_adamw(group: Any, folder: Path) -> None:
    compare("adamw", group, folder)


@pytest.mark.parametrize(
    ("work", "num_servers"),
    [(compare_adamw, 3), *slow_cases((compare_adamw, 1), (compare_sgd, 2))],
)
def test_one_worker_makes_the_weights_of_a_trainer_without_servers(
    work: Any, num_servers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXNET_KVSTORE_BIGARRAY_BOUND", "50")  # larger arrays are cut among the servers
    with job(tmp_path, work, num_workers=1, num_servers=num_servers) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, (tmp_path / "worker-0.log").read_text()
    found = json.loads((tmp_path / "found.json").read_text())
    assert max(found["differences"]) < 1e-6
    assert found["updates"] == [5, NUM_STEPS] and set(found["staleness"]) == {0}


def average(group: Any, folder: Path) -> None:
    """Average statistics of 1, 2 and 4 by worker, three times: by uneven samples, by those of one worker, by none."""
    from mxtrain.models.parameters import running_statistics

    layers = net()
    running = layers[1].running_mean
    found, seen = [], running_statistics.SampleCounter()
    for shares in ([8, 0, 24], [0, 5, 0], [0, 0, 0]):
        if any(shares):
            running.set_data(running.data() * 0 + 2**group.rank)
        seen.num_samples += shares[group.rank]
        running_statistics.average(layers, seen, group)
        found.append(running.data().asnumpy().tolist())
    (folder / f"{group.rank}.json").write_text(json.dumps(found))


def test_running_statistics_are_averaged_by_the_samples_that_moved_them(tmp_path: Path) -> None:
    with job(tmp_path, average, num_workers=3) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, (tmp_path / "worker-0.log").read_text()
    for number in range(3):
        found = json.loads((tmp_path / f"{number}.json").read_text())
        assert found == [[(8 * 1 + 24 * 4) / 32] * 16, [2.0] * 16, [2.0] * 16]


def learn(group: Any, folder: Path) -> None:
    from mxtrain.kvstore.server_client import ServerClient

    layers = net(seed=group.rank)  # the servers' are the first one's
    servers = ServerClient(list(layers.collect_params().values()), built("sgd"), "dist_async", group)
    begun, staleness = weights(layers), []
    loss_before = sum(backward(layers, step, group.rank)[1] for step in range(10))
    for step in range(100):
        num_samples, _ = backward(layers, step, group.rank)
        staleness.append(servers.push_pull(0.002, 1 / num_samples))
    _, num_updates = servers.save()
    loss_after = sum(backward(layers, step, group.rank)[1] for step in range(10))
    found = {"losses": [loss_before, loss_after], "staleness": staleness, "num_updates": num_updates}
    (folder / f"{group.rank}.json").write_text(json.dumps(found))
    np.savez(folder / f"{group.rank}.npz", *begun, *weights(layers))


@pytest.mark.slow  # test_async_fit.py has real runs
@pytest.mark.parametrize("num_workers", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_async_workers_learn_together(tmp_path: Path, num_workers: int) -> None:
    with job(tmp_path, learn, num_workers, num_servers=2) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, (tmp_path / "worker-0.log").read_text()
    found = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(num_workers)]
    first, *others = (list(np.load(tmp_path / f"{number}.npz").values()) for number in range(num_workers))
    for each in found:
        assert each["num_updates"] == 100 * num_workers, "an update of another is missing"
        before, after = each["losses"]  # on the same samples, whenever this worker had its turns
        assert after < before / 3
    # Between a worker's n-th and its next pull the others made some: none is lost, none counted twice.
    stale = [update for each in found for update in each["staleness"]]
    assert min(stale) >= 0 and 0 < max(stale) < 100 * (num_workers - 1)
    for other in others:
        for ours, theirs in zip(first, other):
            assert (ours == theirs).all(), "all began and ended with the servers' weights"
