"""A worker of a parameter server: `python -m benchmarks.comm.mxnet_side exact|fast|2bit|stock`."""

from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

import numpy as np

from benchmarks.comm.measure import expected, take_turns
from benchmarks.comm.resnet50 import shapes
from mxtrain import runtime
from mxtrain.cluster.worker_group import SINGLE_WORKER, Peer, SingleWorker, WorkerGroup

mx = runtime.load()
from mxtrain.kvstore.trainers import local_trainer  # noqa: E402
from mxtrain.kvstore.worker_sums import open_sums  # noqa: E402
from mxtrain.optim.sums.exact_gradients import ExactAccumulator  # noqa: E402
from mxtrain.optim.sums.gradients import GradientAccumulator  # noqa: E402
from mxtrain.optim.sums.grid import Grid  # noqa: E402

THRESHOLD = 0.5


def main(side: str) -> None:
    kv, gradients, reduce = SIDES[side]()
    take(gradients, reduce, THRESHOLD * kv.num_workers if side == "2bit" else expected(kv.num_workers))


def take(gradients: list[Any], reduce: Callable[[], None], total: float) -> None:
    """Take turns with sums that have to be this total."""

    def fill() -> None:
        for gradient in gradients:
            gradient[:] = 1
        mx.nd.waitall()

    take_turns(fill, reduce, lambda: all((gradient.asnumpy() == total).all() for gradient in gradients))


def ours(
    sums: str, threshold: float = 0.0, store: str = "dist_sync", group: WorkerGroup = SINGLE_WORKER
) -> tuple[Any, list[Any], Callable[[], None]]:
    """Return the reduction of a step of `fit`, with all that it does to gradients after the backward pass."""
    parameters, optimizer = ones(), mx.optimizer.create("sgd")
    sums = open_sums(store, parameters, [], 0, threshold, group, is_rounded=False)
    trainer = local_trainer.open_local(parameters, optimizer, store, sums)
    kv, gradients = sums.devices[0].buckets.kv, [parameter.grad() for parameter in parameters]
    workers = Group(kv.rank, kv.num_workers)
    grid = Grid([gradient.size for gradient in gradients], kv.num_workers, is_single=True)
    grid.learn(np.ones(grid.ends[-1]))

    def reduce() -> None:
        added = accumulator()
        for parameter in parameters:
            parameter.data()._fresh_grad = True
        added.write_sums()
        trainer.start_reduce()
        trainer.finish_reduce()
        mx.nd.waitall()
        assert not isinstance(added, ExactAccumulator) or not added.wide_blocks().any()
        added.end_step(True)

    def accumulator() -> GradientAccumulator:
        if sums == "fast":
            return GradientAccumulator(parameters, [mx.cpu()])
        return ExactAccumulator(parameters, [mx.cpu()], grid, 1.0, workers)

    return kv, gradients, reduce


class Group(SingleWorker):
    """As much of the workers as a store without servers, and exact sums once they have a grid, ask for."""

    def __init__(self, rank: int, world_size: int, peers: Sequence[Peer] = ()):
        self.rank, self.world_size, self.peers = rank, world_size, peers


def ones() -> list[Any]:
    parameters = [mx.gluon.Parameter(f"weight{n}", shape=shape) for n, shape in enumerate(shapes())]
    for parameter in parameters:
        parameter.initialize(mx.init.One())
    return parameters


def stock() -> tuple[Any, list[Any], Callable[[], None]]:
    """Return gluon.Trainer's reduction, after its race at the start."""
    parameters = ones()
    trainer = mx.gluon.Trainer(parameters, "sgd", kvstore="dist_sync", update_on_kvstore=False)
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()

    def reduce() -> None:
        trainer.allreduce_grads()
        mx.nd.waitall()

    return trainer._kvstore, [parameter.grad() for parameter in parameters], reduce


SIDES: dict[str, Callable[[], tuple[Any, list[Any], Callable[[], None]]]] = {
    "exact": lambda: ours("exact"),
    "fast": lambda: ours("fast"),
    "2bit": lambda: ours("fast", THRESHOLD),
    "stock": stock,
}

if __name__ == "__main__":
    main(sys.argv[1])
