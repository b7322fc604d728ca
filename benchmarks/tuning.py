"""A search of 20 trials against the default recipe of the handwritten digits, judged by other seeds and other samples.

    python -m benchmarks.tuning [--rounds 3] [--trials 20] [--seeds 5] [--runs FOLDER] [--write docs/tuning.md]

The digits in five parts: three to train on, one to search and choose checkpoints by, and one that no search sees. A
round is a search with a seed of its own. Its best config and the default recipe, examples/digits.yaml, are then trained
with the same other seeds, which no search has used, and judged on both parts. With --runs it goes on where it was
stopped. Exits with 1 where the default recipe's validation loss is as good, in a round, or on average over other seeds.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.harness import commands, parsing, processes, tables
from benchmarks.harness import rounds as harness_rounds
from benchmarks.learn import folds

RECIPE = commands.ROOT / "examples" / "digits.yaml"
CHANGED = {"devices": "cpu", "threads": 1, "score": "loss", "log": "none"}
SPACE = """\
lr: {low: 0.0005, high: 0.03, log: true}
batch_size: [32, 64, 128]
weight_decay: {low: 0.001, high: 0.5, log: true}
warmup_epochs: {low: 0, high: 3, step: 0.5}
ema: [0, 0.9, 0.97]
augment: [none, pad_crop:pad=1, pad_crop:pad=2, pad_crop:pad=3]
optimizer: [adamw, adam, nadam, lamb]
"""
SEED = 0  # of the runs of a search


class Judged(NamedTuple):
    """One run: its losses on the part that chose it and on the one that nobody has seen, and the accuracy there."""

    val_loss: float
    test_loss: float
    test_accuracy: float


class Round(NamedTuple):
    """One search: its best value, and the flags that gave it."""

    best: float
    flags: dict[str, Any]
    config: Path


def main() -> int:
    options = _parse()
    with tempfile.TemporaryDirectory() as made:
        folder = options.runs or Path(made)
        packs = folds.make(folder / "folds")
        (folder / "base.yaml").write_text(base(packs))
        (folder / "space.yaml").write_text(SPACE)
        test, seeds = packs[0][1], range(SEED + 1, SEED + 1 + options.seeds)
        with ThreadPoolExecutor(options.at_once) as pool:
            numbers = range(options.rounds)
            searching = [
                pool.submit(search, folder, number, options.trials, options.jobs) for number in numbers
            ]
            first, *default = judged(
                pool, folder / "default", folder / "base.yaml", range(SEED, seeds.stop), test
            )
            rounds = [each.result() for each in searching]
            best = [judged(pool, folder / f"best-{n}", rounds[n].config, seeds, test) for n in numbers]
    text = table(options, first, rounds, default, best)
    tables.write(options.write, "tuning", text)
    is_better = all(found.best < first.val_loss for found in rounds)
    worst = max(mean(runs, "val_loss") for runs in best)
    return 0 if is_better and worst < mean(default, "val_loss") else 1


def base(packs: list[tuple[Path, Path]]) -> str:
    """Return the config that all trials have in common: the recipe, and its data without the part of `packs[0]`."""
    train = [str(val) for _, val in packs[2:]]
    recipe = yaml.safe_load(RECIPE.read_text())
    return str(yaml.safe_dump({**recipe, **CHANGED, "seed": SEED, "train": train, "val": str(packs[1][1])}))


def search(folder: Path, number: int, num_trials: int, jobs: int) -> Round:
    """Search, or go on, and return the best value and its config."""
    out = folder / f"search-{number}"
    files = ("--config", folder / "base.yaml", "--space", folder / "space.yaml", "--out", out)
    while len(values(out)) < num_trials:
        limits = ("--trials", num_trials, "--timeout", processes.DEADLINE_SECONDS - 200)
        processes.run(sys.executable, "-m", "mxtrain.tune", *files, *limits, "--seed", number, "--jobs", jobs)
    config = yaml.safe_load((out / "best.yaml").read_text())
    flags = {name: config[name] for name in yaml.safe_load(SPACE)}
    return Round(min(filter(None, values(out))), flags, out / "best.yaml")


def values(out: Path) -> list[float | None]:
    """Return the value of each trial that has ended; None of one that did not come to its end."""
    path = out / "trials.csv"
    with path.open() if path.exists() else io.StringIO() as file:
        rows = [row for row in csv.DictReader(file) if row["outcome"] != "under way"]
    return [float(row["val_loss"]) if row["outcome"] == "done" else None for row in rows]


def judged(pool: ThreadPoolExecutor, out: Path, config: Path, seeds: range, test: Path) -> list[Judged]:
    """Train a config with each seed, and judge the best checkpoint of each run."""

    def judge(seed: int) -> Judged:
        run = out / str(seed)  # which goes on where it was stopped
        flags = ("--config", config, "--seed", seed, "--out", run, "--log-level", "warning")
        processes.run(sys.executable, "-m", "mxtrain.fit", *flags)
        line = (sys.executable, "-m", "mxtrain.evaluate", "--run", run, "--val", test, "--json")
        found = json.loads(processes.run(*line).output)
        lowest = min(float(record["val_loss"]) for record in commands.records(run, "eval"))
        return Judged(lowest, found["val_loss"], found["val_accuracy"])

    return list(pool.map(judge, seeds))


def mean(runs: list[Judged], name: str) -> float:
    return statistics.mean(getattr(run, name) for run in runs)


def table(
    options: Any, first: Judged, rounds: list[Round], default: list[Judged], best: list[list[Judged]]
) -> str:
    """Return both tables: of the values by which configs were chosen, and of what other seeds make of them."""
    sides = {"default recipe": default, **{f"best of search {n}": runs for n, runs in enumerate(best)}}
    best_values = [["default recipe", f"{first.val_loss:.4f}", ""]]
    best_values += [
        [f"search {n}", f"{each.best:.4f}", in_words(each.flags)] for n, each in enumerate(rounds)
    ]
    rows = [
        [side, spread(runs, "val_loss"), spread(runs, "test_loss"), f"{mean(runs, 'test_accuracy'):.2%}"]
        for side, runs in sides.items()
    ]
    return "\n\n".join(
        [
            f"Validation loss of the default recipe, and of the best of {options.trials} trials, which that loss has "
            "chosen:",
            tables.markdown(["", "validation loss", "flags"], best_values, "lrl"),
            f"The same configs with {options.seeds} other seeds, mean (lowest to highest); no search has seen the test "
            "part:",
            tables.markdown(["", "validation loss", "test loss", "test accuracy"], rows, "lr"),
        ]
    )


def in_words(flags: dict[str, Any]) -> str:
    return ", ".join(
        f"`{name}: {value:.3g}`" if isinstance(value, float) else f"`{name}: {value}`"
        for name, value in flags.items()
    )


def spread(runs: list[Judged], name: str) -> str:
    return harness_rounds.spread([getattr(run, name) for run in runs], ".4f")


def _parse() -> Any:
    parser = parsing.parser("tuning", __doc__, rounds=3)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each config besides")
    parser.add_argument("--at-once", type=int, default=2, help="searches and runs, of one thread each")
    parser.add_argument(
        "--jobs", type=int, default=1, help="trials of a search at once; with 1 it finds the same each time"
    )
    parsing.add_folder(parser, "--runs", None, "keep everything there, and do nothing again that it holds")
    parsing.add_page(parser)
    options = parser.parse_args()
    if options.runs:
        options.runs.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
