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

from benchmarks.harness import parsing
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import markdown

BAR = 0.01
NUM_CLASSES = 1000
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
    from mxtrain import config, runtime

    runtime.load()
    from mxtrain.report.sinks.writers import Logged, open_sinks
    from mxtrain.tasks.classification import Classification
    from mxtrain.train import job as jobs
    from mxtrain.train import state
    from mxtrain.train.context import build_context
    from mxtrain.train.input_pipeline import InputPipeline
    from mxtrain.train.step import train_step
    from mxtrain.train.telemetry.epoch_metrics import observed
    from mxtrain.train.telemetry.step_records import StepRecords

    flags = f"--train none --out {out} --model {net.name} --image-size {net.image_size} --log none"
    run = config.parse([*flags.split(), "--batch-size", str(net.batch_size)])
    parts = build_context(jobs.of_data(Classification.numbered(run, NUM_CLASSES), range(10**6)))
    batches = random_batches(net)
    progress = state.restore(parts, None)
    of_step: dict[str, float] = {}

    def note(record: dict[str, Any]) -> None:
        if record["kind"] == "train":
            of_step.update(record)

    with open_sinks(Logged(out, parts.job.plan.length.num_steps), on_record=note) as report, observed(
        parts
    ) as observe:
        pipeline: Any = InputPipeline(parts.job, batches)
        records = StepRecords(parts, pipeline, report, observe)

        def step(side: str) -> dict[str, float]:
            nonlocal progress
            parts.clock.sample_steps = side == "sampled"
            parts.clock.start_step(progress.step + 1)
            result = train_step(parts, batches, lambda batch: None, progress.step, 1e-6, progress.scale)
            before, progress = progress, progress.after_step(result)
            began = time.perf_counter()
            records.write(before, progress, 1e-6, result)
            return {**of_step, "records": time.perf_counter() - began}

        yield step


def random_batches(net: Net) -> list[Any]:
    """Return the micro-batches of a step, like those of the loader."""
    import numpy as np

    from mxtrain.data.loading.loader import Batch, Request

    rng = np.random.default_rng(0)
    size = min(net.batch_size, 32)
    return [
        Batch(
            Request(0, position, 0, np.arange(size)),
            {
                "data": rng.standard_normal((size, 3, net.image_size, net.image_size)).astype(np.float32),
                "label": rng.integers(0, NUM_CLASSES, size).astype(np.float32),
            },
            None,
        )
        for position in range(net.batch_size // size)
    ]


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
