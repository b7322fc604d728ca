"""Savings of a row-sparse table: bytes between one of two workers and two servers in a step, and its time.

    python -m benchmarks.sparse          under a minute; --num-rows, --width, --num-ids for other tables

Both sides train a table under `dist_sync`, each worker with ids of its own. The dense side is `fit`'s path for a dense
`nn.Embedding` (gradients summed in buckets), the sparse one its path for `mxtrain.models.SparseEmbedding`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.comm.wire import num_bytes
from benchmarks.harness import parsing
from benchmarks.harness.groups import cluster
from benchmarks.harness.tables import markdown

SIDES = ("sparse", "dense")
NUM_WORKERS, NUM_SERVERS = 2, 2
FIRST_STEPS, STEPS = 1, 5


def main() -> int:
    parser = parsing.parser("sparse", __doc__)
    parser.add_argument("--num-rows", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--num-ids", type=int, default=1000)
    options = parser.parse_args()
    sizes = [options.num_rows, options.width, options.num_ids]
    if "DMLC_ROLE" in os.environ:
        node(*sizes)
    print(
        f"{options.num_rows} x {options.width}, {options.num_ids} ids a step and worker, {NUM_WORKERS} workers"
    )
    rows = [(side, *measured(side, sys.argv[1:])) for side in SIDES]
    shown = [(side, f"{megabytes:.2f}", f"{seconds:.3f}") for side, megabytes, seconds in rows]
    print(markdown(["table", "MB a step and worker", "seconds a step"], shown))
    return 0


def measured(side: str, argv: list[str]) -> tuple[float, float]:
    """Return the medians of the first worker's steps in a new cluster; RuntimeError if a process fails."""
    line = (sys.executable, "-m", "benchmarks.sparse", *argv)
    with tempfile.TemporaryDirectory() as folder:
        # Of TCP alone the kernel counts bytes.
        places = {"SIDE": side, "OUT": folder, "DMLC_LOCAL": "0"}
        with cluster(lambda name: line, NUM_WORKERS, NUM_SERVERS, **places) as group:
            group.end()
        found = json.loads((Path(folder) / "found.json").read_text())
    return statistics.median(found["bytes"]) / 1e6, statistics.median(found["seconds"])


def node(num_rows: int, width: int, num_ids: int) -> None:
    """Run one process of the cluster; does not return."""
    from mxtrain import fit, runtime
    from mxtrain.cluster import environment
    from mxtrain.config import Layout, Output, Run
    from mxtrain.core.system import wheels
    from mxtrain.train.cluster import join, serving

    def work() -> None:
        run = Run(layout=Layout(kvstore="dist_sync", start_timeout=100), output=Output(out=os.environ["OUT"]))
        node = environment.node_spec(os.environ, run)
        assert node is not None
        if node.role != "worker":
            serving.serve(run, node)
            return
        runtime.load(threads=1)
        with join.as_worker(run, node, {"versions": wheels.versions()}) as (_, group):
            found = steps(group, num_rows, width, num_ids)
            if group.rank == 0:
                (Path(os.environ["OUT"]) / "found.json").write_text(json.dumps(found))

    fit._as_node(work)


def steps(group: Any, num_rows: int, width: int, num_ids: int) -> dict[str, list[float]]:
    """Return bytes and seconds of each step, after the first ones."""
    from mxtrain.kvstore.trainers.trainer import open_trainer
    from mxtrain.models import SparseEmbedding
    from mxtrain.optim.update import Update
    from mxtrain.runtime import mx

    nn = mx.gluon.nn
    layer = (SparseEmbedding if os.environ["SIDE"] == "sparse" else nn.Embedding)(num_rows, width)
    layer.initialize()
    optimizer = mx.optimizer.SGD(learning_rate=0.1)
    trainer = open_trainer([layer.weight], optimizer, "dist_sync", group=group)
    found: dict[str, list[float]] = {"bytes": [], "seconds": []}
    mx.random.seed(group.rank)
    for step in range(FIRST_STEPS + STEPS):
        group.sum(0)
        began, before = time.monotonic(), sum(num_bytes())
        with mx.autograd.record():
            output = layer(mx.nd.random.randint(0, num_rows, shape=(num_ids,)))
        output.backward()
        trainer.start_reduce()
        trainer.finish_reduce()
        trainer.apply(Update(optimizer.lr, 1 / (NUM_WORKERS * num_ids)))
        mx.nd.waitall()
        if step >= FIRST_STEPS:
            found["seconds"].append(time.monotonic() - began)
            found["bytes"].append(sum(num_bytes()) - before)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
