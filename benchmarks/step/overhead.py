"""Overhead of a step besides computing, as shares of its time: `python -m benchmarks.step.overhead`.

Each part is timed by itself, in turns with whole steps, and compared by its fastest turn: what else the machine does
only ever adds.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from benchmarks.harness import parsing, training
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import markdown


def main() -> None:
    parser = parsing.parser("step.overhead", __doc__, rounds=8)
    parser.add_argument("--model", default="resnet18_v1b")
    parser.add_argument("--image-size", default=224, type=int)
    parser.add_argument("--batch-size", default=32, type=int)
    options = parser.parse_args()
    from mxtrain.optim import precision
    from mxtrain.train.net import build_net

    count, size = options.batch_size, options.image_size
    flags = ("--model", options.model, "--image-size", size, "--batch-size", count, "--micro-batch", count)
    with build_net.compiling("off"):
        context = training.context_of(training.run_of(*flags, "--ema", 0.999))
        made = training.Training(context, training.batches_of(*training.noise(count, size)), rate=1e-4)
        calls = {"a whole step": made.step, **pieces(context)}
        turns = {name: lambda call=call: seconds_of(call) for name, call in calls.items()}
        fastest = {name: min(each) for name, each in in_turns(turns, options.rounds).items()}
    whole = fastest["a whole step"]
    rows = [(name, f"{each * 1e3:.1f}", f"{each / whole:.2%}") for name, each in fastest.items()]
    print(markdown(("", "ms", "of a step"), rows, "lr"))
    assert precision.all_finite([p.list_data()[0] for p in context.trainer.parameters])


def pieces(context: Any) -> dict[str, Callable[[], Any]]:
    from mxtrain.checkpoint.directory import AVERAGES
    from mxtrain.optim import precision
    from mxtrain.optim.update import Update, unscale_and_clip
    from mxtrain.train import step

    trained = [each for each in context.trainer.parameters if each.grad_req != "null"]
    first_device = [each.grad(context.devices[0]) for each in trained]
    return {
        "the norm, which tells finite": lambda: precision.l2_norm(first_device),
        "a copy of running statistics": lambda: step.step_statistics(context),
        "--clip-value": lambda: unscale_and_clip(first_device, Update(rate=0.0, factor=1.0, clip=1.0)),
        "--ema": context.companions[AVERAGES].after_update,
    }


def seconds_of(call: Callable[[], Any]) -> float:
    from mxtrain.runtime import mx

    started = time.perf_counter()
    call()
    mx.nd.waitall()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
