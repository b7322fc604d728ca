"""dist_sync under gluon: a net's gradients are computed in the memory that is sent, which then holds the sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.jobs.cluster_jobs import ended, job

WIDTH = 2100  # a square of them is cut into buckets of its own
ROWS = np.random.default_rng(0).normal(size=(7, 10)).astype(np.float32)


def net(places: list[Any]) -> Any:
    """Layers with gradients that share a bucket, and one that several buckets share."""
    from mxtrain.runtime import mx

    layers = mx.gluon.nn.HybridSequential()
    layers.add(mx.gluon.nn.Conv2D(16, 3, in_channels=16, activation="relu"), mx.gluon.nn.GlobalAvgPool2D())
    layers.add(mx.gluon.nn.Dense(WIDTH, in_units=16), mx.gluon.nn.Dense(WIDTH, in_units=WIDTH))
    layers.add(mx.gluon.nn.Dense(3, in_units=WIDTH, use_bias=False))
    layers.initialize(mx.init.Xavier(), ctx=places)
    layers.hybridize(static_alloc=True, static_shape=True)
    return layers


def backward(layers: Any, pictures: Any, place: Any) -> None:
    from mxtrain.runtime import mx

    with mx.autograd.record():
        loss = (layers(mx.nd.array(pictures, ctx=place)) ** 2).sum()
    loss.backward()


def sum_gradients(group: Any, folder: Path) -> None:
    """Three steps on two devices of every worker, against a net that is alone with all their pictures.

    Statistics of as many micro-batches as there are `ROWS` go the same way.
    """
    from mxtrain.kvstore.trainers.trainer import open_trainer
    from mxtrain.models.parameters import running_statistics
    from mxtrain.runtime import mx

    mx.random.seed(group.rank)
    places = [mx.cpu(0), mx.cpu(1)]
    shared, alone = net(places), net([mx.cpu()])
    parameters, twins = (list(layers.collect_params().values()) for layers in (shared, alone))
    norm = mx.gluon.nn.BatchNorm(in_channels=ROWS.shape[1] // 2)
    norm.initialize(mx.init.Normal(), ctx=places)
    statistics = running_statistics.parameters(norm)
    for statistic in statistics:
        statistic.set_data(statistic.data(places[0]) + group.rank)
    trainer = open_trainer(
        parameters, mx.optimizer.SGD(), "dist_sync", statistics, group=group, num_rows=len(ROWS)
    )
    of_first_worker = [[array.asnumpy().tolist() for array in each.list_data()] for each in statistics]
    for parameter, twin in zip(parameters, twins):
        twin.set_data(parameter.data(places[0]))
    differences, same_rows = [], []
    for step in range(3):
        pictures = np.random.default_rng(step).normal(size=(group.world_size, len(places), 2, 16, 5, 5))
        for device, place in enumerate(places):
            backward(shared, pictures[group.rank, device], place)
        own_rows = np.zeros_like(ROWS)
        own_rows[group.rank :: group.world_size] = ROWS[group.rank :: group.world_size] * (step + 1)
        rows = mx.nd.array(own_rows)
        trainer.start_reduce()
        trainer.finish_reduce([rows])
        same_rows.append(np.array_equal(rows.asnumpy(), ROWS * (step + 1)))
        backward(alone, pictures.reshape(-1, *pictures.shape[3:]), mx.cpu())
        for parameter, twin in zip(parameters, twins):
            right = twin.grad().asnumpy()
            errors = [np.abs(gradient.asnumpy() - right).max() for gradient in parameter.list_grad()]
            differences += [float(error / np.abs(right).max()) for error in errors]
    assert trainer.sums is not None
    gradients = trainer.sums.devices[0].buckets
    in_views = [parameter.grad(places[0]) is view for parameter, view in zip(parameters, gradients.views)]
    found = {
        "differences": differences,
        "in views": all(in_views),
        "same rows": same_rows,
        "statistics": of_first_worker,
        "cuts": sum(bucket.segments[0].start > 0 for bucket in gradients.buckets),
    }
    (folder / f"{group.rank}.json").write_text(json.dumps(found))


@pytest.mark.parametrize("num_workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_gradients_are_computed_in_buckets_and_all_workers_have_the_sum(
    tmp_path: Path, num_workers: int
) -> None:
    with job(tmp_path, sum_gradients, num_workers) as processes:
        codes = ended(processes)
    assert set(codes.values()) == {0}, (tmp_path / "worker-0.log").read_text()
    statistics: list[Any] = []
    for number in range(num_workers):
        found = json.loads((tmp_path / f"{number}.json").read_text())
        assert len(found["differences"]) == 3 * 7 * 2 and max(found["differences"]) < 1e-5
        assert found["in views"] and found["cuts"]
        assert found["same rows"] == [True] * 3
        mean, variance = found["statistics"]
        assert mean[0][0] in range(num_workers), "those of the store's first worker"
        assert mean == [[mean[0][0]] * 5] * 2 and variance == [[mean[0][0] + 1] * 5] * 2
        statistics.append(found["statistics"])
    assert statistics == statistics[:1] * num_workers
