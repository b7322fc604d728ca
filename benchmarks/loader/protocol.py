"""The measurement of a contender inside its own process, with the stdlib and NumPy only.

A contender delivers batches without end. After some to warm up, the CPU time of all processes of its session is read
from the kernel's own clocks; after a number of images it is read again. Import, start-up, shutting down and what is
compiled on the way are thus left out, and the batches in the queues at the end were there at the beginning too.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, Callable, Generator

import numpy as np

Batches = Generator[Any, None, None]


def run(
    deliver: Callable[[argparse.Namespace], Batches], to_numpy: Callable[[Any], Any] = np.asarray
) -> None:
    """Measure what `deliver` yields and print the result as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rec")
    parser.add_argument("--batch", choices=("float32", "uint8"), default="float32")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--images", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=64)
    options = parser.parse_args()
    batches = deliver(options)
    print(json.dumps(_measure(batches, options.warm_up, options.images, to_numpy)), flush=True)
    batches.close()
    os._exit(0)  # some would wait for what nobody takes from their queues any more


def _measure(
    batches: Batches, warm_up: int, num_images: int, to_numpy: Callable[[Any], Any]
) -> dict[str, Any]:
    _take(batches, warm_up)
    before, started = session_cpu_seconds(), time.perf_counter()
    num_taken, last = _take(batches, num_images)
    wall_seconds, after = time.perf_counter() - started, session_cpu_seconds()
    if not before.keys() <= after.keys():
        raise SystemExit("a process of this contender ended while it was measured")
    last = to_numpy(last)
    return {
        "cpu_seconds": sum(after.values()) - sum(before.values()),
        "wall_seconds": wall_seconds,
        "num_images": num_taken,
        "shape": last.shape,
        "dtype": str(last.dtype),
        "mean": float(last.mean()),
        "deviation": float(last.std()),
    }


def _take(batches: Batches, num_images: int) -> tuple[int, Any]:
    """Take batches of at least so many images; return their number and the last batch."""
    num_taken, batch = 0, None
    while num_taken < num_images:
        batch = next(batches)
        num_taken += len(batch)
    return num_taken, batch


def session_cpu_seconds() -> dict[int, float]:
    """Return the CPU time of each process of this session, with its threads that have ended."""
    session = str(os.getsid(0))
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # the name before may hold anything
            if fields[3] == session:
                pid = int(stat.parent.name)
                found[pid] = time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a pid
        except OSError:
            continue  # it ended just now
    return found
