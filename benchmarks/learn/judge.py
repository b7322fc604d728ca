"""Results as Markdown tables, and their comparison with the bars. Pure functions."""

from __future__ import annotations

import statistics
from typing import Dict, List

from benchmarks import curves
from benchmarks.curves import Panel
from benchmarks.harness.rounds import spread
from benchmarks.harness.tables import Bar, markdown, render_bars
from benchmarks.learn.sides import OURS, TORCH, Trained

Results = Dict[str, List[Trained]]  # by side; a run for each fold or seed
Linear = Dict[str, float]  # accuracy by what the linear classifier is shown

FIRST_STEPS_BAR = 1e-4
LEAST = {"digits": 0.988, "shapes": 0.9}
WITHOUT_DROPOUT = (
    "shapes",
)  # the same net, weights and pixels: before the first update PyTorch has the same loss
LINEAR_MOST = 0.22  # twice what guessing one of nine finds


def accuracies(learnt: dict[str, Results], linear: Linear) -> str:
    """Return a table of mean accuracies over the runs, with the worst and the best."""
    sides = list(next(iter(learnt.values())))
    rows = [[side, *(_entry(results[side]) for results in learnt.values())] for side in sides]
    for shown, accuracy in linear.items():
        entries = (f"{accuracy:.2%}" if task == "shapes" else "" for task in learnt)
        rows.append([f"linear classifier of the {shown}", *entries])
    return markdown(["accuracy on held-out pictures", *learnt], rows, "lr")


def bars(first_steps: list[Panel], learnt: dict[str, Results], linear: Linear) -> tuple[str, bool]:
    """Return a table with a line for each bar, and whether all are met."""
    judged = [_of_first_steps(panel) for panel in first_steps]
    for task, results in learnt.items():
        judged.append(_of_task(task, results))
        if task in WITHOUT_DROPOUT:
            judged.append(_of_first_loss(task, results))
        judged += [_of_side(task, side, results) for side in results if side != OURS]
    judged += [
        Bar(
            f"shapes, linear classifier of the {shown}",
            f"{found:.1%}",
            f"at most {LINEAR_MOST:.0%}",
            found <= LINEAR_MOST,
        )
        for shown, found in linear.items()
    ]
    return render_bars(judged)


def _of_first_steps(panel: Panel) -> Bar:
    apart = float(curves.relative_difference(panel.curves[TORCH], panel.curves[OURS]).max())
    return Bar(
        f"{panel.title}: largest relative difference of a loss, torch from mxtrain",
        f"{apart:.1e}",
        f"at most {FIRST_STEPS_BAR:g}",
        apart <= FIRST_STEPS_BAR,
    )


def _of_task(task: str, results: Results) -> Bar:
    found = _mean(results[OURS])
    return Bar(f"{task}: mean accuracy", f"{found:.2%}", f"at least {LEAST[task]:.1%}", found >= LEAST[task])


def _of_first_loss(task: str, results: Results) -> Bar:
    pairs = zip(results[TORCH], results[OURS])
    apart = max(abs(torchs.losses[0] / ours.losses[0] - 1) for torchs, ours in pairs)
    return Bar(
        f"{task}: relative difference of the first loss, torch from mxtrain",
        f"{apart:.1e}",
        f"at most {FIRST_STEPS_BAR:g}",
        bool(apart <= FIRST_STEPS_BAR),
    )


def _of_side(task: str, side: str, results: Results) -> Bar:
    """Compare means, which may differ as much as mxtrain's own runs with other seeds, or for the digits other folds."""
    apart = abs(_mean(results[side]) - _mean(results[OURS]))
    most = _spread(results[OURS])
    return Bar(
        f"{task}, {side}: how far its mean accuracy is from mxtrain's",
        f"{apart:.2%}",
        f"at most {most:.2%}, mxtrain's best run less its worst",
        apart <= most,
    )


def _mean(runs: list[Trained]) -> float:
    return statistics.mean(run.accuracy for run in runs)


def _spread(runs: list[Trained]) -> float:
    return max(run.accuracy for run in runs) - min(run.accuracy for run in runs)


def _entry(runs: list[Trained]) -> str:
    return spread([run.accuracy for run in runs], ".2%")
