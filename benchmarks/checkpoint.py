"""What a checkpoint costs a run: training time lost for each one, of ResNet-50's state.

    python -m benchmarks.checkpoint [--rounds 7] [--optimizers sgd,adam] [--out FOLDER] [--json]

Rounds of steps with one checkpoint begun before the first take turns with equal rounds without; a round goes on
until the checkpoint is on disk. Lost is what such a round takes longer than its steps would have taken at the pace of
the round before it. The third side waits for the write, as it would without the thread. Pictures are small, so that the
state is large beside a step: the cost of a checkpoint does not depend on them. Give --out on the disk that counts, and
a quiet machine. Exits with 1 where the median loss is above the bar, at one checkpoint a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

BAR = 0.02
SECONDS_BETWEEN = 60.0
IMAGE_SIZE, BATCH_SIZE, NUM_CLASSES = 64, 8, 1000
STEPS_PER_ROUND = 12
DATA = {"class_names": [], "num_samples": 0}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the training time that checkpoints take.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--optimizers", default="sgd,adam")
    parser.add_argument("--out", type=Path, help="where to write; a temporary folder when left out")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        found = {
            optimizer: measure(optimizer, Path(folder), options.rounds)
            for optimizer in options.optimizers.split(",")
        }
    print(json.dumps({"bar": BAR, **found}) if options.json else table(found))
    return 0 if all(each["share_lost"] <= BAR for each in found.values()) else 1


def measure(optimizer: str, out: Path, rounds: int) -> dict[str, Any]:
    """Medians over the rounds, in seconds."""
    from mxtrain import config, runtime

    runtime.load()
    from mxtrain.train import saving, state, step

    flags = (
        f"--train none --out {out} --model resnet50_v1b --image-size {IMAGE_SIZE} --batch-size {BATCH_SIZE}"
    )
    run = config.parse([*flags.split(), "--optimizer", optimizer])
    parts = state.build(run, NUM_CLASSES)
    progress = state.restore(run, parts, None)
    batch = random_batch()
    (out / "metrics.jsonl").touch()

    def train(begin: Callable[[], Any], under_way: Callable[[], bool]) -> tuple[float, float, int]:
        """Seconds until the first step, seconds of the round, and its steps."""
        nonlocal progress
        started, num_steps = time.perf_counter(), 0
        begin()
        stalled = time.perf_counter() - started
        while num_steps < STEPS_PER_ROUND or under_way():
            outcome = step.train_step(parts, [batch], lambda batch: None, progress.step, 1e-6, progress.scale)
            progress, num_steps = progress.after(outcome), num_steps + 1
        return stalled, time.perf_counter() - started, num_steps

    with saving.Saver(run.keep) as saver:

        def save() -> None:
            saver.save(state.snapshot(run, parts, progress, DATA))

        def save_and_wait() -> None:
            save()
            saver.wait()

        def under_way() -> bool:
            return saver.under_way is not None and not saver.under_way.done()

        train(lambda: None, under_way)  # to warm up
        sides: dict[str, list[tuple[float, float, int]]] = {"without": [], "beside": [], "waiting": []}
        for _ in range(rounds):
            sides["without"].append(train(lambda: None, lambda: False))
            sides["beside"].append(train(save, under_way))
            sides["waiting"].append(train(save_and_wait, lambda: False))
    of_step = [seconds / num_steps for _, seconds, num_steps in sides["without"]]
    lost = {
        name: sorted(
            seconds - num_steps * step for (_, seconds, num_steps), step in zip(sides[name], of_step)
        )
        for name in ("beside", "waiting")
    }
    newest = sorted((out / "checkpoints").iterdir())[-1]
    return {
        "megabytes": sum(path.stat().st_size for path in newest.iterdir()) / 1e6,
        "step_seconds": statistics.median(of_step),
        "copy_seconds": statistics.median(stalled for stalled, _, _ in sides["beside"]),
        "lost_seconds": lost["beside"],
        "lost_seconds_waiting": lost["waiting"],
        "share_lost": statistics.median(lost["beside"]) / SECONDS_BETWEEN,
    }


def random_batch() -> Any:
    """What the loader gives to a step."""
    import numpy as np

    rng = np.random.default_rng(0)
    return SimpleNamespace(
        request=SimpleNamespace(position=0),
        data=rng.standard_normal((BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE)).astype(np.float32),
        label=rng.integers(0, NUM_CLASSES, BATCH_SIZE).astype(np.float32),
    )


def table(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "resnet50_v1b, one checkpoint, seconds of training time: median (least to most)\n",
        "| optimizer | MB | lost | of that copying | lost if the step waited | share at one a minute |",
        "|---|---|---|---|---|---|",
    ]
    for optimizer, each in found.items():
        lines.append(
            f"| {optimizer} | {each['megabytes']:.0f} | {spread(each['lost_seconds'])} | {each['copy_seconds']:.2f} "
            f"| {spread(each['lost_seconds_waiting'])} | {each['share_lost']:.2%} |"
        )
    return "\n".join([*lines, f"\nbar: {BAR:.0%}"])


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({seconds[0]:.2f} to {seconds[-1]:.2f})"


if __name__ == "__main__":
    raise SystemExit(main())
