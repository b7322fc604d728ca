"""A worker of sums without servers: `python -m benchmarks.comm.allreduce_side RANK NUMBERS HOSTS`, lists in JSON."""

from __future__ import annotations

import json
import sys
from typing import Sequence

from benchmarks.comm.measure import expected
from benchmarks.comm.mxnet_side import Group, ours, take
from mxtrain.cluster.worker_group import Peer


def main(rank: int, numbers: Sequence[int], hosts: Sequence[int]) -> None:
    group = Group(rank, len(numbers), [*map(Peer, hosts, numbers)])
    _, gradients, reduce = ours("exact", store="allreduce", group=group)
    take(gradients, reduce, expected(len(numbers)))


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(json.loads, sys.argv[2:]))
