"""A worker on one core: `python -m benchmarks.scale.worker NET CORE STORE`, alone or in the cluster of DMLC_*.

The steps are those of `fit` (`train_step`), on made pictures; every second one lets sums wait for the whole backward
pass. When gradients and sums are there is seen by threads that wait for the same arrays as MXNet's engine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from typing import Any, Callable, NamedTuple, Sequence

from benchmarks.harness import training
from benchmarks.harness.groups import answer_turns
from benchmarks.scale.nets import NETS, Net

RATE = 1e-4
PAIRS = 3  # of steps in a turn, one of each kind
TIMEOUTS = ("--start-timeout", "90", "--stall-timeout", "3600")


class Timed(NamedTuple):
    """One step; all but its length is in seconds since its backward pass began."""

    hides: bool  # sums travel while later gradients are computed
    seconds: float
    computed: list[float]  # the gradients of each bucket; alone, the first and the last gradient
    summed: list[float]
    finished: float  # all sums are where the gradients were, BatchNorm's statistics too


class ReductionTimer:
    """A wrapper of a trainer's reduction that notes when gradients and sums are there."""

    def __init__(self, trainer: Any):
        self.trainer, self.hides = trainer, True
        self.trainer_start, self.trainer_finish = trainer.start_reduce, trainer.finish_reduce
        trainer.start_reduce, trainer.finish_reduce = self.start_reduce, self.finish_reduce
        self.gradients = [p.list_grad()[0] for p in trainer.parameters if p.grad_req != "null"]
        self.sets = [each.buckets for each in trainer.sums.devices] if trainer.sums else []
        self.buckets = [bucket for each in self.sets for bucket in each.buckets]

    def start_reduce(self) -> None:
        from mxtrain.runtime import mx

        self.began = time.perf_counter()
        if not self.hides:
            mx.nd.waitall()
        # A bucket's gradients and their sum are the same memory: what is read from it now is not the sum yet.
        computed = [
            self.gradients[bucket.segments[0].array].reshape(-1)[:1].copy() for bucket in self.buckets
        ]
        if not self.buckets:
            computed = [self.gradients[-1], self.gradients[0]]
        self.trainer_start()
        self.computed, self.summed = [], []
        self.threads = [
            threading.Thread(
                target=self._record, args=(self.computed, [each.wait_to_read for each in computed])
            ),
            threading.Thread(target=self._record, args=(self.summed, [*map(self._wait_for, self.buckets)])),
        ]
        for thread in self.threads:
            thread.start()

    def finish_reduce(self, statistics: Sequence[Any]) -> None:
        from mxtrain.runtime import mx

        for thread in self.threads:
            thread.join()
        self.trainer_finish(statistics)
        mx.nd.waitall()
        self.finished = time.perf_counter() - self.began

    def _wait_for(self, bucket: Any) -> Callable[[], None]:
        """Return a function that waits for a bucket's sum."""

        def wait() -> None:
            from mxtrain.kvstore.store import wait_for

            wait_for(self.sets[0].kv, bucket.key)
            bucket.flat.wait_to_read()

        return wait

    def _record(self, times: list[float], waits: Sequence[Callable[[], None]]) -> None:
        for wait in waits:
            wait()
            times.append(time.perf_counter() - self.began)


def main(name: str, core: int, store: str) -> None:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    from mxtrain import config, runtime
    from mxtrain.cluster import environment
    from mxtrain.core.system import wheels
    from mxtrain.train.cluster import join

    net = NETS[name]
    runtime.load(threads=1)
    from mxtrain.train.net import build_net

    with tempfile.TemporaryDirectory() as out:
        flags = ["--kvstore", store, *TIMEOUTS, "--out", out]
        run = config.parse([*net.flags(1), *flags])
        node = environment.node_spec(os.environ, run)
        if node is not None:
            run = node.with_counts(config.parse([*net.flags(node.num_workers), *flags]))
        worker = join.as_worker(run, node, {"versions": wheels.versions()})
        with worker as (assigned, group), build_net.compiling(run.model.amp):
            take_turns(assigned, group, net)
    if node is not None:
        os._exit(0)  # ps-lite's own end waits for the scheduler


def take_turns(run: Any, group: Any, net: Net) -> None:
    """Answer each line of stdin with a list of timed steps; the very first step is left out."""
    context = training.context_of(run, group=group)
    batches = training.batches_of(
        *training.noise(net.batch_of_worker, net.image_size, seed=group.rank), first=group.rank
    )
    made, timer = training.Training(context, batches, RATE), ReductionTimer(context.trainer)

    def timed(hides: bool) -> Timed:
        timer.hides = hides
        started = time.perf_counter()
        outcome = made.step()
        seconds = time.perf_counter() - started
        assert outcome.applied and outcome.num_samples == net.batch_of_worker * group.world_size, outcome
        return Timed(hides, seconds, timer.computed, timer.summed, timer.finished)

    timed(True)
    answer_turns(lambda: [num_bytes(timer), [timed(hides) for _ in range(PAIRS) for hides in (True, False)]])


def num_bytes(timer: ReductionTimer) -> int:
    return sum(4 * gradient.size for gradient in timer.gradients)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
