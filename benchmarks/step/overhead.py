"""Overhead of a step besides computing, as shares of its time: `python -m benchmarks.step.overhead`.

Each part is timed by itself, in turns with whole steps, and compared by its fastest turn: what else the machine does
only ever adds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Callable

from benchmarks.step import mxnet_side
from benchmarks.step.nets import CLASSES, Net
from mxtrain import config, runtime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet18_v1b")
    parser.add_argument("--image-size", default=224, type=int)
    parser.add_argument("--batch-size", default=32, type=int)
    parser.add_argument("--turns", default=8, type=int)
    options = parser.parse_args()
    runtime.load()
    from mxtrain.optim import precision
    from mxtrain.tasks.classification import Classification
    from mxtrain.train import job as jobs
    from mxtrain.train.context import build_context
    from mxtrain.train.net import build_net

    flags = f"--train t.rec --model {options.model} --image-size {options.image_size} --ema 0.999"
    size = f"--batch-size {options.batch_size} --micro-batch {options.batch_size}"
    run = config.parse(f"{flags} {size}".split())
    net = Net(options.model, options.batch_size, options.image_size, rate=1e-4)
    with build_net.compiling("off"):
        parts = build_context(jobs.of_data(Classification.numbered(run, CLASSES), range(10**6)))
        timed = {"a whole step": mxnet_side.steps_of(net, parts), **pieces(parts)}
        fastest = dict.fromkeys(timed, float("inf"))
        for _ in range(options.turns):
            for name, call in timed.items():
                fastest[name] = min(fastest[name], seconds_of(call))
    for name, seconds in fastest.items():
        print(f"{name:32} {seconds * 1e3:9.1f} ms {seconds / fastest['a whole step']:8.2%}")
    assert precision.all_finite([p.list_data()[0] for p in parts.trainer.parameters])


def pieces(parts: Any) -> dict[str, Callable[[], Any]]:
    from mxtrain.checkpoint.directory import AVERAGES
    from mxtrain.optim import precision
    from mxtrain.optim.sums import gradients
    from mxtrain.train import step

    of_step = gradients.GradientAccumulator(parts.trainer.parameters, parts.devices)
    first_device = [parameter.grad(parts.devices[0]) for parameter in of_step.parameters]
    return {
        "the norm, which tells finite": lambda: precision.l2_norm(first_device),
        "a copy of running statistics": lambda: step.step_statistics(parts),
        "--clip-value": lambda: of_step.clip(1.0),
        "--ema": parts.companions[AVERAGES].after_update,
    }


def seconds_of(call: Callable[[], Any]) -> float:
    from mxtrain.runtime import mx

    started = time.perf_counter()
    call()
    mx.nd.waitall()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
