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
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.harness import commands, parsing, processes
from benchmarks.learn import folds

BEGIN, END = "<!-- python -m benchmarks.tuning --write: from here -->", "<!-- to here -->"
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
    print(text)
    if options.write:
        write(options.write, text)
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


def train(out: Path, config: Path, seed: int) -> Path:
    """Train a config with another seed, unless the folder has it."""
    flags = ("--config", config, "--seed", seed, "--out", out, "--log-level", "warning")
    processes.run(sys.executable, "-m", "mxtrain.fit", *flags)
    return out


def value(run: Path) -> float:
    """Return a run's lowest validation loss, of which it keeps the checkpoint."""
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return min(float(record["val_loss"]) for record in records if record["kind"] == "eval")


def judged(pool: ThreadPoolExecutor, out: Path, config: Path, seeds: range, test: Path) -> list[Judged]:
    """Train a config with each seed, and judge the best checkpoint of each run."""

    def judge(seed: int) -> Judged:
        run = train(out / str(seed), config, seed)
        line = [sys.executable, "-m", "mxtrain.evaluate", "--run", str(run), "--val", str(test), "--json"]
        done = subprocess.run(
            line, cwd=processes.ROOT, check=True, capture_output=True, text=True, timeout=300
        )
        found = json.loads(done.stdout)
        return Judged(value(run), found["val_loss"], found["val_accuracy"])

    return list(pool.map(judge, seeds))


def mean(runs: list[Judged], name: str) -> float:
    return statistics.mean(getattr(run, name) for run in runs)


def table(
    options: Any, first: Judged, rounds: list[Round], default: list[Judged], best: list[list[Judged]]
) -> str:
    """Return both tables: of the values by which configs were chosen, and of what other seeds make of them."""
    sides = {"default recipe": default, **{f"best of search {n}": runs for n, runs in enumerate(best)}}
    return "\n".join(
        [
            f"Validation loss of the default recipe, and of the best of {options.trials} trials, which that loss has "
            "chosen:\n",
            "| | validation loss | flags |",
            "|---|---:|---|",
            f"| default recipe | {first.val_loss:.4f} | |",
            *(
                f"| search {n} | {found.best:.4f} | {in_words(found.flags)} |"
                for n, found in enumerate(rounds)
            ),
            f"\nThe same configs with {options.seeds} other seeds, mean (lowest to highest); no search has seen "
            "the test part:\n",
            "| | validation loss | test loss | test accuracy |",
            "|---|---:|---:|---:|",
            *(
                f"| {side} | {spread(runs, 'val_loss')} | {spread(runs, 'test_loss')} | "
                f"{mean(runs, 'test_accuracy'):.2%} |"
                for side, runs in sides.items()
            ),
        ]
    )


def in_words(flags: dict[str, Any]) -> str:
    return ", ".join(
        f"`{name}: {value:.3g}`" if isinstance(value, float) else f"`{name}: {value}`"
        for name, value in flags.items()
    )


def spread(runs: list[Judged], name: str) -> str:
    values = [getattr(run, name) for run in runs]
    return f"{statistics.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def write(path: Path, text: str) -> None:
    """Write `text` between the marks of a page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{path}: there is no {BEGIN} ... {END} to write between")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _parse() -> Any:
    parser = parsing.parser("tuning", __doc__)
    parser.add_argument("--rounds", type=int, default=3, help="searches, each with a seed of its own")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each config besides")
    parser.add_argument("--at-once", type=int, default=2, help="searches and runs, of one thread each")
    parser.add_argument(
        "--jobs", type=int, default=1, help="trials of a search at once; with 1 it finds the same each time"
    )
    parser.add_argument("--runs", type=Path, help="keep everything there, and do nothing again that it holds")
    parser.add_argument("--write", type=Path, help="a page with marks between which the tables go")
    options = parser.parse_args()
    if options.runs:
        options.runs = options.runs.resolve()
        options.runs.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
