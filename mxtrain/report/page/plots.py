"""Plots, drawn with matplotlib: the extra `report`.

Owns how they look. What is drawn comes from the caller, as plain numbers.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from mxtrain.core.errors import UsageError

BLUE = "#1f5fa8"
COLOURS = (BLUE, "#c2571a", "#22703c", "#7a4fa3", "#a3324f", "#0f7480", "#7d6608", "#5b6470")


class Line(NamedTuple):
    """A line of a plot: `points` has `name`, `step`, `y`, and `low` and `high` where it stands for more points."""

    label: str
    run: int
    points: Mapping[str, Any]


def draw_rates(
    path: Path, steps: Sequence[int], rates: Sequence[float], steps_per_epoch: float, title: str
) -> None:
    """Draw the learning rate of these steps into a PNG: linear above, logarithmic below, where small rates show."""
    figure = _figure()
    linear, logarithmic = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 2)})
    highest = max(range(len(rates)), key=rates.__getitem__)
    at = "at" if len(steps) > steps[-1] else "near"  # where there are steps between these
    for axes in (linear, logarithmic):
        axes.plot(steps, rates, color=BLUE, linewidth=1.5)
        axes.plot([steps[highest]], [rates[highest]], "o", color=BLUE, markersize=5)
        axes.grid(alpha=0.25)
        axes.margins(x=0.01)
    if any(rates):
        logarithmic.set_yscale("log")
    linear.set_ylim(bottom=0)
    linear.set_ylabel("learning rate")
    logarithmic.set_ylabel("the same, log")
    logarithmic.set_xlabel("step")
    epochs = linear.secondary_xaxis(
        "top", functions=(lambda step: step / steps_per_epoch, lambda epoch: epoch * steps_per_epoch)
    )
    epochs.set_xlabel("epoch")
    peak = f"highest {rates[highest]:.4g} {at} step {steps[highest]}"
    values = f"first {rates[0]:.4g}, {peak}, last {rates[-1]:.4g}"
    figure.suptitle("\n".join([*textwrap.wrap(title, 110), values]), fontsize=10)
    _save(figure, path)


def draw_curve(path: Path, title: str, lines: Sequence[Line]) -> None:
    """Draw a number of runs over their steps into a PNG: training solid, validation dotted, extremes as a band."""
    figure = _figure()
    axes = figure.subplots()
    has_one_run = len({line.run for line in lines}) == 1
    for line in lines:
        is_validation = line.points["name"] == "validation"
        colour = COLOURS[(is_validation if has_one_run else line.run) % len(COLOURS)]
        steps = line.points["step"]
        if "low" in line.points:
            axes.fill_between(
                steps, line.points["low"], line.points["high"], color=colour, alpha=0.15, linewidth=0
            )
        style = "o:" if is_validation else "-" if len(steps) > 1 else "o"
        # A label that begins with _ would be left out, and $ begins a formula.
        label = textwrap.shorten(line.label, 60, placeholder="…").replace("$", r"\$")
        axes.plot(
            steps, line.points["y"], style, color=colour, linewidth=1.5, markersize=4, label=label.lstrip("_")
        )
    axes.grid(alpha=0.25)
    axes.margins(x=0.01)
    axes.set_xlabel("step")
    axes.set_title(title.replace("$", r"\$"), loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(lines) > 1:
        axes.legend(frameon=False, fontsize=9)
    _save(figure, path)


def draw_range_test(
    path: Path,
    rates: Sequence[float],
    losses: Sequence[float],
    smoothed: Sequence[float],
    rate: float | None,
    title: str,
) -> None:
    """Draw the losses of a learning-rate range test into a PNG, and a line at the suggested rate."""
    figure = _figure()
    axes = figure.subplots()
    axes.plot(rates, losses, ".", color=BLUE, alpha=0.35, markersize=4, label="of each step")
    axes.plot(rates, smoothed, color=BLUE, linewidth=1.5, label="smoothed")
    if rate is not None:
        axes.axvline(rate, color=COLOURS[1], linewidth=1.2, linestyle="--", label=f"suggested: {rate:.2g}")
    axes.set_xscale("log")
    lowest, margin = min(losses), 0.3 * (smoothed[0] - min(smoothed))
    axes.set_ylim(lowest - 0.2 * margin, smoothed[0] + margin)
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.25)
    axes.legend()
    figure.suptitle("\n".join(textwrap.wrap(title, 110)), fontsize=10)
    _save(figure, path)


def _figure() -> Any:
    """Return a new figure, made without pyplot, which would need a display and keep a global figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install 'mxtrain[report]'") from None
    return Figure(figsize=(9, 6), dpi=120, constrained_layout=True)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}); give another name") from None
