"""A worker of a parameter server: `python -m benchmarks.comm.mxnet_side ours|2bit|stock`."""

from __future__ import annotations

import sys
from typing import Any, Callable

from benchmarks.comm.measure import expected, take_turns
from benchmarks.comm.resnet50 import shapes
from mxtrain import runtime

mx = runtime.load()
from mxtrain.kvstore.buckets import Buckets  # noqa: E402

THRESHOLD = 0.5


def main(side: str) -> None:
    if side == "stock":
        kv, gradients, reduce = stock()
    else:
        kv, gradients, reduce = bucketed(THRESHOLD if side == "2bit" else 0.0)
    total = THRESHOLD * kv.num_workers if side == "2bit" else expected(kv.num_workers)

    def fill() -> None:
        for gradient in gradients:
            gradient[:] = 1
        mx.nd.waitall()

    take_turns(fill, reduce, lambda: all((gradient.asnumpy() == total).all() for gradient in gradients))


def bucketed(threshold: float) -> tuple[Any, list[Any], Callable[[], None]]:
    kv = mx.kv.create("dist_sync")
    buckets = Buckets(kv, shapes(), threshold=threshold)
    gradients = buckets.views  # as the trainer's are
    mx.nd.waitall()

    def reduce() -> None:
        buckets.start_allreduce(gradients)
        buckets.finish_allreduce(gradients)
        mx.nd.waitall()

    return kv, gradients, reduce


def stock() -> tuple[Any, list[Any], Callable[[], None]]:
    """Return gluon.Trainer's reduction, after its race at the start."""
    parameters = [mx.gluon.Parameter(f"weight{n}", shape=shape) for n, shape in enumerate(shapes())]
    for parameter in parameters:
        parameter.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(parameters, "sgd", kvstore="dist_sync", update_on_kvstore=False)
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()

    def reduce() -> None:
        trainer.allreduce_grads()
        mx.nd.waitall()

    return trainer._kvstore, [parameter.grad() for parameter in parameters], reduce


if __name__ == "__main__":
    main(sys.argv[1])
