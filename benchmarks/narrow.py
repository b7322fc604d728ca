"""A training step of a net of each family in bfloat16 against float32: `python -m benchmarks.narrow`.

Both are mxtrain's own steps on one batch in memory, timed in turns; a row has the medians, the share of the FLOPs that
runs in bfloat16 and what the table of times foresees. Ends with 1 where a net is slower than float32 by more than
TOLERANCE.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import Any, Callable

from benchmarks.harness import parsing
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import markdown
from benchmarks.step import mxnet_side
from benchmarks.step import nets as step_nets
from benchmarks.step.nets import Net
from benchmarks.step.overhead import seconds_of
from mxtrain import runtime
from mxtrain.core.system import kernels

OF_TOKENS = ("gpt", "lstm")  # benchmarks.step's
NETS = (
    *("resnet18_v1b", "resnet50_v1b", "resnet18_v2", "se_resnext50_32x4d", "resnext50_32x4d", "resnest14"),
    *("mobilenet1.0", "mobilenetv2_1.0", "mobilenetv3_large", "densenet121", "squeezenet1.1", "vgg11_bn"),
    *("alexnet", "inceptionv3", "googlenet", "darknet53", "xception", "senet_154", "nasnet_4_1056"),
    *("hrnet_w18_small_v1_c", "residualattentionnet56", "cifar_resnet20_v1", "cifar_wideresnet16_10"),
    *OF_TOKENS,
)
TOLERANCE = 0.03


def main() -> None:
    parser = parsing.parser("narrow", __doc__, rounds=5)
    parser.add_argument("models", nargs="*", default=NETS)
    parser.add_argument("--image-size", default=0, type=int, help="0: what the net was made for")
    parser.add_argument("--batch-size", default=8, type=int)
    parser.add_argument("--amp", default="bf16")
    parser.add_argument("--amp-table", default="")
    options = parser.parse_args()
    problem = kernels.bf16_problem()
    if problem:
        raise SystemExit(f"--amp {options.amp} {problem}")
    runtime.load()
    from mxtrain.train.net import build_net

    with build_net.compiling("off"):
        rows = [row(model, options) for model in options.models]
    head = ("net", "float32, ms", "bfloat16, ms", "times as fast", "foreseen", "FLOPs in bfloat16")
    print(markdown(head, (cells for _, cells in rows)))
    slower = [cells[0] for speed, cells in rows if speed < 1 - TOLERANCE]
    if slower:
        raise SystemExit(f"slower than float32: {', '.join(slower)}")


def row(model: str, options: argparse.Namespace) -> tuple[float, tuple[str, ...]]:
    """Return how many times as fast as float32 a net is, and its row."""
    wide, _ = steps(model, options, "off", "")
    narrow, context = steps(model, options, options.amp, options.amp_table)
    turns = {name: lambda step=step: seconds_of(step) for name, step in (("wide", wide), ("narrow", narrow))}
    times = in_turns(turns, options.rounds, warm_up=2)  # the first lay arrays out
    before, after = (statistics.median(taken) * 1e3 for taken in times.values())
    forecast = context.built.forecast
    numbers = (
        f"{before:.0f}",
        f"{after:.0f}",
        f"{before / after:.2f}",
        f"{forecast.speed:.2f}",
        f"{forecast.share:.1%}",
    )
    print(f"{model}: {', '.join(numbers)}", file=sys.stderr, flush=True)
    return before / after, (model, *numbers)


def steps(model: str, options: argparse.Namespace, amp: str, table: str) -> tuple[Callable[[], Any], Any]:
    """Return a function that takes a step of this net, and the context it works with."""
    if model in OF_TOKENS:
        net = step_nets.NETS[model]._replace(batch_size=options.batch_size)
    else:
        size = options.image_size or (
            32 if model.startswith("cifar") else 299 if "inceptionv3" in model else 224
        )
        net = Net(model, options.batch_size, size, rate=1e-4)
    context = mxnet_side.context_of(net, amp, table)
    return mxnet_side.steps_of(net, context), context


if __name__ == "__main__":
    main()
