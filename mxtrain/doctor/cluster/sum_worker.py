"""A worker of a probe: sums the same bytes repeatedly, in buckets of several kinds, and prints the times.

`sum_jobs.py` starts it beside a scheduler and servers, if any, of `fit`, with the flags of `fit`. Owns the measurement
in one job.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.doctor")

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable

from mxtrain import config
from mxtrain.cluster import environment
from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core.die_with_parent import die_with_parent
from mxtrain.core.errors import UsageError, one_line
from mxtrain.core.system import wheels
from mxtrain.doctor.cluster import sum_jobs
from mxtrain.train.cluster import join

SECONDS, MAX_ROUNDS = 3.0, 9


def main() -> None:
    """Join the cluster that the environment names, measure, and print the result on the first worker."""
    die_with_parent()
    logging.basicConfig(level=logging.WARNING)
    run = config.parse(sys.argv[1:])
    node = environment.node_spec(os.environ, run)
    if node is None:
        raise UsageError("this is a part of python -m mxtrain.doctor --comm, which starts it")
    with join.as_worker(node.with_counts(run), node, {"versions": wheels.versions()}) as (job, group):
        from mxtrain import runtime

        runtime.load(group.local_workers)
        sum_times = json.loads(Path(run.output.out, sum_jobs.SUMS_FILE).read_text())
        times = measure(group, job.layout.kvstore, sum_jobs.SumTimes(**sum_times))
        if group.rank == 0:
            print(json.dumps(times), flush=True)


def measure(group: WorkerGroup, store: str, sums: sum_jobs.SumTimes) -> dict[str, list[float]]:
    """Return the milliseconds until the sums are there, of each round, by the kind of buckets."""
    from mxtrain.kvstore.buckets import Buckets
    from mxtrain.kvstore.store import open_store
    from mxtrain.runtime import mx

    kv = open_store(store, group)
    shapes = [(elements,) for elements in sums.elements]
    sides = {
        name: Buckets(kv, shapes, name=f"of-{number}", **arguments)
        for number, (name, arguments) in enumerate(sums.buckets.items())
    }
    mx.nd.waitall()
    first = [_seconds(group, buckets, mx.nd.waitall) for buckets in sides.values()]
    # A sum, so that all workers do the same number of rounds.
    of_round = group.sum([sum(first)])[0] / group.world_size
    rounds = max(1, min(MAX_ROUNDS, int(SECONDS / of_round)))
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, buckets in sides.items():
            taken[name].append(round(1e3 * _seconds(group, buckets, mx.nd.waitall), 2))
    return taken


def _seconds(group: WorkerGroup, buckets: Any, wait: Callable[[], None]) -> float:
    group.sum([0])  # begin together
    started = time.perf_counter()
    buckets.start_allreduce(buckets.views)
    buckets.finish_allreduce(buckets.views)
    wait()
    return time.perf_counter() - started


if __name__ == "__main__":
    code = one_line("mxtrain.doctor", main)
    os._exit(code)  # ps-lite's own end waits for the scheduler
