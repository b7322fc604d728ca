"""Cost of a checkpoint: the training time that a run loses for each one, with ResNet-50's state.

    python -m benchmarks.checkpoint [--rounds 7] [--optimizers sgd,adam] [--out FOLDER] [--json]

Rounds of steps with one checkpoint begun before the first take turns with equal rounds without; a round goes on
until the checkpoint is on disk. Lost is what such a round takes longer than its steps would have taken at the pace of
the round before it. The third side waits for the write, as it would without the thread. Pictures are small, so that the
state is large beside a step: the cost of a checkpoint does not depend on them. Give --out on the disk that counts, and
a quiet machine. Exits with 1 where the median loss is above the bar, at one checkpoint a minute.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

from benchmarks.harness import parsing, training
from benchmarks.harness.rounds import in_turns, spread
from benchmarks.harness.tables import markdown
from benchmarks.harness.training import Training

BAR = 0.02
SECONDS_BETWEEN = 60.0
IMAGE_SIZE, BATCH_SIZE = 64, 8
STEPS_PER_ROUND = 12


class Round(NamedTuple):
    stalled_seconds: float
    seconds: float
    num_steps: int


def main() -> int:
    parser = parsing.parser("checkpoint", __doc__, rounds=7, has_json=True)
    parser.add_argument("--optimizers", default="sgd,adam")
    parser.add_argument("--out", type=Path, help="where to write; a temporary folder when left out")
    options = parser.parse_args()
    from mxtrain.train.net import build_net

    with tempfile.TemporaryDirectory(dir=options.out) as folder, build_net.compiling("off"):
        found = {
            optimizer: measure(optimizer, Path(folder) / optimizer, options.rounds)
            for optimizer in options.optimizers.split(",")
        }
    print(json.dumps({"bar": BAR, **found}) if options.json else table(found))
    return 0 if all(each["share_lost"] <= BAR for each in found.values()) else 1


class Rounds:
    """Rounds of steps of ResNet-50, and its checkpoints."""

    def __init__(self, optimizer: str, out: Path):
        flags = ("--out", out, "--model", "resnet50_v1b", "--optimizer", optimizer)
        sizes = ("--image-size", IMAGE_SIZE, "--batch-size", BATCH_SIZE)
        batches = training.batches_of(*training.noise(BATCH_SIZE, IMAGE_SIZE))
        self.training = Training(training.context_of(training.run_of(*flags, *sizes)), batches)

    def snapshot(self) -> Any:
        from mxtrain.train import state

        return state.snapshot(self.training.context, self.training.progress)

    def round(self, begin: Callable[[], Any], under_way: Callable[[], bool]) -> Round:
        """Make the steps of a round after `begin`, and more until nothing is under way."""
        started, num_steps = time.perf_counter(), 0
        begin()
        stalled = time.perf_counter() - started
        while num_steps < STEPS_PER_ROUND or under_way():
            self.training.step()
            num_steps += 1
        return Round(stalled, time.perf_counter() - started, num_steps)


def measure(optimizer: str, out: Path, rounds: int) -> dict[str, Any]:
    """Return what one optimizer's checkpoints cost: seconds, as medians or as all rounds in ascending order."""
    from mxtrain.checkpoint.checkpointer import Checkpointer

    out.mkdir()
    (out / "metrics.jsonl").touch()
    made = Rounds(optimizer, out)
    with Checkpointer(made.training.context.run.output, None) as checkpointer:

        def save() -> None:
            checkpointer.save(made.training.progress, made.snapshot())

        def save_and_wait() -> None:
            save()
            checkpointer.wait()

        def under_way() -> bool:
            return checkpointer.is_writing()

        begins = {"without": lambda: None, "beside": save, "waiting": save_and_wait}
        made.round(begins["without"], under_way)  # to warm up
        turns = {side: lambda begin=begin: made.round(begin, under_way) for side, begin in begins.items()}
        sides = in_turns(turns, rounds)
    of_step = [each.seconds / each.num_steps for each in sides["without"]]
    lost = {
        name: sorted(each.seconds - each.num_steps * step for each, step in zip(sides[name], of_step))
        for name in ("beside", "waiting")
    }
    newest = sorted((out / "checkpoints").iterdir())[-1]
    return {
        "megabytes": sum(path.stat().st_size for path in newest.iterdir()) / 1e6,
        "step_seconds": statistics.median(of_step),
        "copy_seconds": statistics.median(each.stalled_seconds for each in sides["beside"]),
        "lost_seconds": lost["beside"],
        "lost_seconds_waiting": lost["waiting"],
        "share_lost": statistics.median(lost["beside"]) / SECONDS_BETWEEN,
    }


def table(found: dict[str, dict[str, Any]]) -> str:
    head = ("optimizer", "MB", "lost", "of that copying", "lost if the step waited", "share at one a minute")
    rows = []
    for optimizer, each in found.items():
        lost, waiting = (
            spread(each[name], ".2f", statistics.median) for name in ("lost_seconds", "lost_seconds_waiting")
        )
        rows.append(
            (
                optimizer,
                f"{each['megabytes']:.0f}",
                lost,
                f"{each['copy_seconds']:.2f}",
                waiting,
                f"{each['share_lost']:.2%}",
            )
        )
    title = "resnet50_v1b, one checkpoint, seconds of training time: median (least to most)"
    return f"{title}\n\n{markdown(head, rows)}\n\nbar: {BAR:.0%}"


if __name__ == "__main__":
    raise SystemExit(main())
