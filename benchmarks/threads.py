"""Speed-up by OpenMP threads: one ResNet-18 training step, two ways.

    python benchmarks/threads.py            through `mxtrain.runtime` against plain `import mxnet`
    python benchmarks/threads.py contexts   two CPU contexts with all cores each against half of them each

Each measurement is a process of its own; the two sides take turns, so that a machine that slows down slows both.
Measure on a quiet machine: one busy neighbour takes far more from a team of threads, which waits for its slowest,
than from a single thread; so the neighbours' share of the CPU time during the run is printed with the result.
Everything else is the same in both: the net, the batch, the optimizer, the environment. Exits with 1 where the
ratio of the medians is under the bar.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# As a file, it has this folder in the place of the checkout's.
sys.path[0] = str(Path(__file__).resolve().parents[1])
from benchmarks.harness import parsing, processes  # noqa: E402
from benchmarks.harness.rounds import Neighbours, in_turns  # noqa: E402
from benchmarks.harness.tables import markdown  # noqa: E402

BATCH_SIZE, IMAGE_SIZE = 32, 224
BAR = 1.6
DEADLINE_SECONDS = 600
SIDES = {
    "plain": "plain import mxnet",
    "door": "through mxtrain.runtime",
    "half": "two CPU contexts, half of the cores each",
    "whole": "two CPU contexts, all cores each",
}
COMPARISONS = {"door": ("plain", "door"), "contexts": ("half", "whole")}


def main() -> int:
    parser = parsing.parser("threads", __doc__, rounds=5, has_json=True)
    parser.add_argument("comparison", nargs="?", choices=COMPARISONS, default="door")
    parser.add_argument("--steps", type=int, default=3, help="timed steps per process, after one to warm up")
    parser.add_argument("--side", choices=SIDES, help="measure this side in this process and print images/s")
    options = parser.parse_args()
    if options.side:
        print(images_per_second(options.side, options.steps))
        return 0
    neighbours = Neighbours()
    slow, fast = COMPARISONS[options.comparison]
    rates = in_turns(
        {side: lambda side=side: in_own_process(side, options.steps) for side in (slow, fast)}, options.rounds
    )
    share = neighbours.share()
    medians = {side: statistics.median(measured) for side, measured in rates.items()}
    ratio = medians[fast] / medians[slow]
    found = {"images_per_second": rates, "medians": medians, "ratio": ratio, "bar": BAR, "neighbours": share}
    print(json.dumps(found) if options.json else table(found))
    return 0 if ratio >= BAR else 1


def in_own_process(side: str, steps: int) -> float:
    line = (sys.executable, "-m", "benchmarks.threads", "--side", side, "--steps", steps)
    return float(processes.run(*line, deadline_seconds=DEADLINE_SECONDS, is_neutral=True).answer)


def images_per_second(side: str, steps: int) -> float:
    mx = load_mxnet(side)
    from gluoncv import model_zoo

    contexts = [mx.cpu(index) for index in range(2 if side in COMPARISONS["contexts"] else 1)]
    net = model_zoo.get_model("resnet18_v1b", classes=1000)
    net.initialize(mx.init.Xavier(), ctx=contexts)
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    images = mx.nd.random.uniform(shape=(BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE))
    images = mx.gluon.utils.split_and_load(images, contexts)
    labels = mx.gluon.utils.split_and_load(mx.nd.arange(BATCH_SIZE), contexts)
    for step in range(steps + 1):
        if step == 1:
            started = time.perf_counter()
        with mx.autograd.record():
            losses = [loss_of(net(part), label) for part, label in zip(images, labels)]
        mx.autograd.backward(losses)
        trainer.step(BATCH_SIZE)
        mx.nd.waitall()
    return steps * BATCH_SIZE / (time.perf_counter() - started)


def load_mxnet(side: str):
    if side != "plain":
        from mxtrain import runtime
        from mxtrain.core.system import machine

        return runtime.load(threads=machine.usable_cores() // 2 if side == "half" else None)
    import numpy

    numpy.bool = bool  # without this alias the plain import fails with NumPy >= 1.24
    import mxnet

    return mxnet


def table(found: dict[str, Any]) -> str:
    rows = [
        (SIDES[side], ", ".join(f"{rate:.1f}" for rate in rates), f"{found['medians'][side]:.1f}")
        for side, rates in found["images_per_second"].items()
    ]
    return "\n\n".join(
        [
            f"resnet18_v1b, {IMAGE_SIZE} px, batch {BATCH_SIZE}, fp32, {len(os.sched_getaffinity(0))} cores",
            markdown(["", "images/s, each process", "median"], rows),
            f"ratio of the medians {found['ratio']:.2f}, bar {BAR}\n"
            f"neighbours took {found['neighbours']:.0%} of the CPU time used meanwhile",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
