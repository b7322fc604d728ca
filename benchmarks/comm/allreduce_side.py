"""A worker of sums without servers: `python -m benchmarks.comm.allreduce_side RANK NUMBERS HOSTS`, lists in JSON."""

from __future__ import annotations

import json
import math
import sys
from typing import Sequence

from benchmarks.comm.measure import expected
from benchmarks.comm.mxnet_side import mx, ones, reduction, take
from mxtrain.kvstore import local_trainer
from mxtrain.kvstore.allreduce.store import AllreduceStore
from mxtrain.kvstore.limbs import WideBlocks


def main(rank: int, numbers: Sequence[int], hosts: Sequence[str]) -> None:
    parameters, store = ones(), AllreduceStore(rank, numbers, hosts)
    buckets = local_trainer._open_gradients(store, parameters, 0.0)
    wide_blocks = WideBlocks(store, [math.prod(parameter.shape) for parameter in parameters])
    trainer = local_trainer.LocalTrainer(
        parameters, mx.optimizer.create("sgd"), "local", buckets, None, wide_blocks
    )
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
    _, gradients, reduce = reduction(parameters, trainer, "exact")
    take(gradients, reduce, expected(len(numbers)))
    store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(json.loads, sys.argv[2:]))
