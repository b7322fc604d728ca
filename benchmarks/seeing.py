"""Cost of seeing what a run does: its records, sampled steps and looks at the host, as a share of a step.

    python -m benchmarks.seeing [--nets resnet18_v1b:224:8,small_cnn:32:64] [--rounds 15] [--json]

Steps of fit on one batch take turns: plain ones and sampled ones, by default every 50th. What a sampled one spends on
layers is on the clock; what barriers cost is the median of the differences between the two kinds in computing. The
loader is left out: none of this touches it. Exits with 1 where all of it takes more than the bar.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

from benchmarks.harness import parsing, training
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import markdown

BAR = 0.01
SIDES = ("plain", "sampled")
TIMES = ("step", "records", "layers", "barriers", "look")
NUM_LOOKS = 10


class Net(NamedTuple):
    """A net by its name, the size of its pictures and their number in a batch."""

    name: str
    image_size: int
    batch_size: int


def main() -> int:
    parser = parsing.parser("seeing", __doc__, rounds=15, has_json=True)
    parser.add_argument("--nets", default="resnet18_v1b:224:8,small_cnn:32:64")
    options = parser.parse_args()
    found = {}
    for text in options.nets.split(","):
        name, *sizes = text.split(":")
        with tempfile.TemporaryDirectory() as folder:
            found[text] = measure(Net(name, *map(int, sizes)), Path(folder), options.rounds)
    print(json.dumps({"bar": BAR, **found}) if options.json else table(found))
    return 0 if all(each["share"] <= BAR for each in found.values()) else 1


def measure(net: Net, out: Path, rounds: int) -> dict[str, float]:
    """Return the seconds of a plain step and of what is done besides, and the share of all of it."""
    from mxtrain.config import Output
    from mxtrain.train.net import build_net
    from mxtrain.train.telemetry import system_metrics

    with build_net.compiling("off"), made_steps(net, out) as step:
        turns = {side: lambda side=side: step(side) for side in SIDES}
        found = in_turns(turns, rounds, warm_up=1, to_and_fro=True)
    plain, sampled = found["plain"], found["sampled"]
    seconds, records = (statistics.median(each[name] for each in plain) for name in ("seconds", "records"))
    layers = statistics.median(each["other_seconds"] for each in sampled)
    barriers = statistics.median(
        more["compute_seconds"] - less["compute_seconds"] for more, less in zip(sampled, plain)
    )
    began = time.thread_time()
    for _ in range(NUM_LOOKS):
        system_metrics._counters(), system_metrics._memory()
    look = (time.thread_time() - began) / NUM_LOOKS
    of_looks, of_sample = look / system_metrics.EVERY_SECONDS, layers + max(0.0, barriers)
    return {
        **{"step": seconds, "records": records, "layers": layers, "barriers": barriers, "look": look},
        "share": (records + of_sample / Output.sample_steps) / seconds + of_looks,
        "share_each": (records + of_sample) / seconds + of_looks,
    }


@contextlib.contextmanager
def made_steps(net: Net, out: Path) -> Iterator[Callable[[str], dict[str, float]]]:
    """Yield a function that makes a step of one side, as a run's loop does, and returns its times."""
    flags = ("--out", out, "--log", "none", "--model", net.name, "--image-size", net.image_size)
    context = training.context_of(training.run_of(*flags, "--batch-size", net.batch_size))
    batches = training.batches_of(*training.noise(net.batch_size, net.image_size), min(net.batch_size, 32))
    made = training.Training(context, batches)
    from mxtrain.report.sinks.writers import Logged, open_sinks
    from mxtrain.train.input_pipeline import InputPipeline
    from mxtrain.train.telemetry.epoch_metrics import observed
    from mxtrain.train.telemetry.step_records import StepRecords

    of_step: dict[str, float] = {}

    def note(record: dict[str, Any]) -> None:
        if record["kind"] == "train":
            of_step.update(record)

    logged = Logged(out, context.job.plan.length.num_steps)
    with open_sinks(logged, on_record=note) as report, observed(context) as observe:
        pipeline: Any = InputPipeline(context.job, batches)
        records = StepRecords(context, pipeline, report, observe)

        def step(side: str) -> dict[str, float]:
            before = made.progress
            context.clock.sample_steps = side == "sampled"
            context.clock.start_step(before.step + 1)
            result = made.step()
            began = time.perf_counter()
            records.write(before, made.progress, made.rate, result)
            return {**of_step, "records": time.perf_counter() - began}

        yield step


def table(found: dict[str, dict[str, float]]) -> str:
    title = "milliseconds, and shares of a step; a look at the host is another thread's CPU time, every 10 seconds"
    rows = []
    for net, each in found.items():
        times = (f"{1000 * each[name]:.2f}" for name in TIMES)
        rows.append([net, *times, f"{each['share']:.2%}", f"{each['share_each']:.1%}"])
    head = ["net:pixels:batch", *TIMES[:-1], "a look", "by default", "sampling every step"]
    return f"{title}\n\n{markdown(head, rows, 'lr')}\n\nbar: {BAR:.0%}"


if __name__ == "__main__":
    raise SystemExit(main())
