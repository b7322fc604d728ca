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

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("comparison", nargs="?", choices=COMPARISONS, default="door")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="timed steps per process, after one to warm up")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help="measure this side in this process and print images/s")
    arguments = parser.parse_args()
    if arguments.side:
        print(images_per_second(arguments.side, arguments.steps))
        return 0
    before = cpu_seconds()
    slow, fast = COMPARISONS[arguments.comparison]
    rates: dict[str, list[float]] = {slow: [], fast: []}
    for _ in range(arguments.rounds):
        for side, measured in rates.items():
            measured.append(in_own_process(side, arguments.steps))
    ours, everyones = (after - start for start, after in zip(before, cpu_seconds()))
    neighbours = 1 - ours / everyones
    medians = {side: statistics.median(measured) for side, measured in rates.items()}
    ratio = medians[fast] / medians[slow]
    if arguments.json:
        print(
            json.dumps(
                {
                    "images_per_second": rates,
                    "medians": medians,
                    "ratio": ratio,
                    "bar": BAR,
                    "neighbours": neighbours,
                }
            )
        )
    else:
        print(table(rates, medians, ratio))
        print(f"neighbours took {neighbours:.0%} of the CPU time used meanwhile")
    return 0 if ratio >= BAR else 1


def cpu_seconds() -> tuple[float, float]:
    """Return the CPU time used so far by our finished children, and by all processes of this machine."""
    children = os.times()
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (
        children.children_user + children.children_system,
        (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK"),
    )


def in_own_process(side: str, steps: int) -> float:
    neutral = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "MXNET_", "OPENBLAS_"))}
    checkout = str(Path(__file__).resolve().parents[1])
    neutral["PYTHONPATH"] = os.pathsep.join(filter(None, [checkout, neutral.get("PYTHONPATH")]))
    child = subprocess.run(
        [sys.executable, __file__, "--side", side, "--steps", str(steps)],
        env=neutral,
        stdout=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=True,
    )
    return float(child.stdout.split()[-1])


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


def table(rates: dict[str, list[float]], medians: dict[str, float], ratio: float) -> str:
    lines = [
        f"resnet18_v1b, {IMAGE_SIZE} px, batch {BATCH_SIZE}, fp32, {len(os.sched_getaffinity(0))} cores\n",
        "| | images/s, each process | median |",
        "|---|---|---|",
    ]
    for side, measured in rates.items():
        each = ", ".join(f"{rate:.1f}" for rate in measured)
        lines.append(f"| {SIDES[side]} | {each} | {medians[side]:.1f} |")
    return "\n".join([*lines, f"\nratio of the medians {ratio:.2f}, bar {BAR}"])


if __name__ == "__main__":
    raise SystemExit(main())
