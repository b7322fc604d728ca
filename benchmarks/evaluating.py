"""Scores by test-time augmentation, by mean weights and by mean answers, of the same trained nets.

    python -m benchmarks.evaluating [--sets digits,shapes] [--write docs/evaluating.md] [--folder FOLDER]

Runs that `--folder` has already are not trained again.

Two sets are learnt with several seeds each, from few samples, so that there is something left to gain: handwritten
digits by the demo's recipe, of which a fifth is learnt and the rest is held out, and pictures of shapes
(`learn/shapes.py`). Then every way of evaluating judges the same checkpoints; a row's numbers are means over the seeds,
and for the rows of several runs there is one number.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from benchmarks.harness import commands, parsing, tables
from benchmarks.learn import folds, shapes

NUM_SEEDS = 3
KEPT = 5
NUM_SHAPES = 1200, 600  # to learn, and held out
COMMON = ("--keep-last", KEPT, "--keep-best", 0)
DIGITS = (
    *commands.DIGITS,
    *("--devices", "cpu", "--kvstore", "local"),
)
SHAPES = (
    *commands.SHAPES,
    *("--image-size", 96, "--val-resize", 112, "--epochs", 16, "--lr", 0.004),
)


class Way(NamedTuple):
    """A row: the flags of evaluate, of each run or of all runs together."""

    flags: str
    num_computed: int  # nets, or views, for each sample
    keywords: dict[str, Any]
    of_all_runs: bool = False


def ways() -> list[Way]:
    """Return the rows of the table."""
    last, all_runs = f"last:{KEPT}", " ".join(f"run{seed}" for seed in range(NUM_SEEDS))
    newest: dict[str, Any] = {"checkpoint": "latest"}
    together: dict[str, Any] = {"of_all_runs": True}
    return [
        Way("run --checkpoint latest", 1, newest),
        Way(f"run --checkpoint {last}", 1, {"checkpoint": last}),
        Way(f"run --checkpoint {last} --ensemble", KEPT, {"checkpoint": last, "ensemble": True}),
        Way("run --checkpoint latest --tta flip", 2, {**newest, "tta": "flip"}),
        Way("run --checkpoint latest --tta crops", 5, {**newest, "tta": "crops"}),
        Way("run --checkpoint latest --tta flip+crops", 10, {**newest, "tta": "flip+crops"}),
        Way(f"run --checkpoint {last} --tta flip+crops", 10, {"checkpoint": last, "tta": "flip+crops"}),
        Way(f"{all_runs} --checkpoint latest", 1, newest, **together),
        Way(
            f"{all_runs} --checkpoint latest --ensemble", NUM_SEEDS, {**newest, "ensemble": True}, **together
        ),
    ]


def _digits(folder: Path) -> tuple[Path, Path, Sequence[object]]:
    learnt, held_out = reversed(folds.make(folder / "digits")[0])
    return learnt, held_out, DIGITS


def _shapes(folder: Path) -> tuple[Path, Path, Sequence[object]]:
    return (*shapes.make(folder, *NUM_SHAPES), SHAPES)


SETS = {"digits": _digits, "shapes": _shapes}  # what to learn, what to judge by, and the flags


def main() -> int:
    parser = parsing.parser("evaluating", __doc__)
    parser.add_argument("--sets", default=",".join(SETS), help="what is learnt, joined by commas")
    parsing.add_page(parser)
    parsing.add_folder(parser, "--folder", None, "where pictures and runs are kept; temporary when left out")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runs = {
            name: _trained(folder / "runs" / name, *SETS[name](folder)) for name in options.sets.split(",")
        }
        text = table({name: [_scores(way, of_set, name) for way in ways()] for name, of_set in runs.items()})
    tables.write(options.write, "evaluating", text)
    return 0


def _trained(folder: Path, train: Path, val: Path, flags: Sequence[object]) -> list[Path]:
    """Return a run for each seed; those that are there already are not trained again."""
    data = ("--train", train, "--val", val)
    return [
        commands.fit_once(folder / f"run{seed}", *data, "--seed", seed, *flags, *COMMON)
        for seed in range(NUM_SEEDS)
    ]


def _scores(way: Way, runs: Sequence[Path], name: str) -> dict[str, float]:
    """Return the means of accuracy and loss over the runs, or those of all runs together."""
    from mxtrain.evaluate import evaluate

    keywords = dict(way.keywords)
    if name == "digits" and "crops" in keywords.get("tta", ""):
        keywords["val_resize"] = (
            36  # as the border of their --augment; there is nothing around the centre else
        )
    found = [
        evaluate(list(each), **keywords) for each in ([runs] if way.of_all_runs else [[run] for run in runs])
    ]
    return {key: statistics.mean(each[f"val_{key}"] for each in found) for key in ("accuracy", "loss")}


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Return the rows as Markdown."""
    heads = [head for name in found for head in (f"{name}: accuracy", "loss")]
    rows = []
    for number, way in enumerate(ways()):
        scores = [each[number] for each in found.values()]
        cells = [cell for each in scores for cell in (f"{each['accuracy']:.2%}", f"{each['loss']:.4f}")]
        rows.append([f"`{way.flags}`", way.num_computed, *cells])
    return tables.markdown(["evaluate", "forward passes", *heads], rows, "lr")


if __name__ == "__main__":
    raise SystemExit(main())
