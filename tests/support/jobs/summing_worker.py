"""What a worker of test_buckets does: arrays of whole numbers, whose sums are exact, and a look at each sum."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comm import wire
from mxtrain.kvstore.buckets import Buckets
from mxtrain.kvstore.store import open_servers
from mxtrain.runtime import mx

THRESHOLD = 0.5
SHAPES = [(3,), (70, 50), (1,), (60_000,), (5, 2), (2, 3, 4, 5)]
SMALL_MB = 0.05  # several buckets; one array lies in five of them


def sum_arrays(steps: int, group: Any, folder: Path) -> None:
    kv = open_servers("dist_sync", group)
    everywhere_the_same_after_broadcast(kv)
    sums_are_exact(kv, steps)
    sums_travel_while_others_are_computed(kv)
    compressed_sums_are_those_of_the_model(kv)
    fewer_bytes_travel_both_ways_when_compressed(kv)


def everywhere_the_same_after_broadcast(kv: Any) -> None:
    weights = arrays_of(kv.rank, step=0)
    weights[0][:] = np.nan if kv.rank else 1.5
    Buckets(kv, SHAPES, name="weights").broadcast(weights)
    expected = [np.full(SHAPES[0], 1.5), *values(0, step=0)[1:]]
    assert all((weight.asnumpy() == value).all() for weight, value in zip(weights, expected))


def sums_are_exact(kv: Any, steps: int) -> None:
    """Every worker's numbers of every step, once: none lost, none doubled, none of another step."""
    buckets = Buckets(kv, SHAPES, SMALL_MB)
    assert sum(segment.array == 3 for bucket in buckets.buckets for segment in bucket.segments) == 5
    elsewhere = arrays_of(kv.rank, step=0, context=mx.cpu(1))
    for step in range(steps):
        gradients = buckets.views if step % 2 else elsewhere
        if random.random() < 0.2:
            time.sleep(0.02 * random.random())  # workers are not in step with each other
        for gradient, value in zip(gradients, values(kv.rank, step)):
            gradient[:] = value
        buckets.start_allreduce(gradients)
        buckets.finish_allreduce(gradients)
        of_workers = [values(worker, step) for worker in range(kv.num_workers)]
        for number, (gradient, parts) in enumerate(zip(gradients, zip(*of_workers))):
            assert (gradient.asnumpy() == sum(parts)).all(), f"step {step}, array {number}"


def sums_travel_while_others_are_computed(kv: Any) -> None:
    """Of two arrays, a bucket each, the last is there at once; its sum comes long before the first is computed."""
    at_once = mx.nd.ones((500, 500))
    square = at_once / 500
    buckets = Buckets(kv, [square.shape, at_once.shape], bucket_mb=1, name="overlapping")
    mx.nd.waitall()
    kv._barrier()
    started = time.monotonic()
    slow = square
    for _ in range(100):
        slow = mx.nd.dot(slow, square)
    buckets.start_allreduce([slow, at_once])
    buckets.finish_allreduce([slow, at_once])
    begun = time.monotonic() - started
    at_once.wait_to_read()
    arrived = time.monotonic() - started
    slow.wait_to_read()
    computed = time.monotonic() - started
    assert (at_once.asnumpy() == kv.num_workers).all()
    assert max(begun, arrived) < computed / 2, f"{begun:.2f} s, {arrived:.2f} s, {computed:.2f} s"


def compressed_sums_are_those_of_the_model(kv: Any) -> None:
    """Bit by bit; a step whose gradients are not finite on one worker is so on all, and leaves nothing behind."""
    buckets = Buckets(kv, SHAPES, SMALL_MB, THRESHOLD, name="compressed")
    gradients = arrays_of(kv.rank, step=0)
    buckets.broadcast(gradients)
    assert all((gradient.asnumpy() == value).all() for gradient, value in zip(gradients, values(0, step=0)))
    left = [[np.zeros(shape, np.float32) for shape in SHAPES] for _ in range(kv.num_workers)]
    for step in range(20):
        for gradient, value in zip(gradients, values(kv.rank, step)):
            gradient[:] = value / 1000
        if step == 12:  # as at a checkpoint: what is left over is dropped
            buckets.drop_residuals()
            left = [[np.zeros(shape, np.float32) for shape in SHAPES] for _ in range(kv.num_workers)]
        broken = {5: np.nan, 7: np.inf}.get(step)
        if broken and kv.rank == 0:
            gradients[3][4321] = broken
        buckets.start_allreduce(gradients)
        buckets.finish_allreduce(gradients)
        sums = [gradient.asnumpy() for gradient in gradients]
        if broken:
            assert not all(np.isfinite(total).all() for total in sums), f"step {step}"
            buckets.restore_residuals()
        else:
            expected = model(left, step)
            assert all((total == right).all() for total, right in zip(sums, expected)), f"step {step}"


def model(left: list[list[Any]], step: int) -> list[Any]:
    """The sums of three levels with error feedback; what each worker has left to say is changed in place."""
    sums = [np.zeros(shape, np.float32) for shape in SHAPES]
    for worker, of_worker in enumerate(left):
        for total, rest, value in zip(sums, of_worker, values(worker, step)):
            rest += value / 1000
            sent = np.where(np.abs(rest) > THRESHOLD, np.sign(rest) * THRESHOLD, 0).astype(np.float32)
            rest -= sent
            total += sent
    return sums


def fewer_bytes_travel_both_ways_when_compressed(kv: Any) -> None:
    shape = (1_000_000,)
    array = mx.nd.ones(shape)
    travelled = {}
    for name, threshold in (("plain", 0.0), ("coded", THRESHOLD)):
        buckets = Buckets(kv, [shape], threshold=threshold, name=f"bytes-{name}")
        mx.nd.waitall()
        before = wire.num_bytes()
        for _ in range(3):
            buckets.start_allreduce([array])
            buckets.finish_allreduce([array])
            mx.nd.waitall()
        travelled[name] = [after - start for after, start in zip(wire.num_bytes(), before)]
    exact = 3 * 4 * array.size
    for plain, coded in zip(travelled["plain"], travelled["coded"]):
        assert exact < plain < exact * 1.02
        assert coded < plain / {1: 14, 2: 10, 3: 8, 4: 6}[kv.num_workers] * 1.05


def values(worker: int, step: int) -> list[Any]:
    rng = np.random.default_rng([worker, step])
    return [rng.integers(-1000, 1000, shape).astype(np.float32) for shape in SHAPES]


def arrays_of(worker: int, step: int, context: Any = None) -> list[Any]:
    return [mx.nd.array(value, ctx=context) for value in values(worker, step)]
