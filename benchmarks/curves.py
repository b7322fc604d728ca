"""Loss curves of runs: reading them, their differences, and a picture of several.

Owns the pictures of every benchmark that compares curves. A curve is the losses of a run's steps, in order.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness import commands

Curve = npt.NDArray[np.float64]
# Told apart by the colour-blind.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")

NUM_COLOURS_KEPT = 128
NO_DIFFERENCE = 1e-9  # which a logarithm has not, is drawn here


class Panel(NamedTuple):
    """Curves drawn in one plot; the first is the reference for the others."""

    title: str
    curves: dict[str, Curve]
    bar: float | None = None  # the largest relative difference that is allowed
    smooth: int = 1  # steps that a point of a drawn loss is the mean of
    bars: Mapping[str, float] = MappingProxyType({})  # of curves that have one of their own


def losses(out: Path) -> Curve:
    """Return the loss of each step; ValueError if a step is missing or there twice."""
    train = commands.records(out, "train")
    steps = [record["step"] for record in train]
    if steps != list(range(1, len(steps) + 1)):
        raise ValueError(f"{out / 'metrics.jsonl'}: its steps are not 1 to {len(steps)}")
    return np.array([record["loss"] for record in train])


def relative_difference(curve: Curve, reference: Curve) -> Curve:
    """Return the relative difference of each step; ValueError if the curves do not have the same steps."""
    if curve.shape != reference.shape or not len(reference):
        raise ValueError(f"curves of {len(curve)} and {len(reference)} steps cannot be compared")
    apart: Curve = np.abs(curve - reference) / np.abs(reference)
    return apart


def draw(path: Path, panels: list[Panel]) -> None:
    """Draw the curves of each panel and, below on a logarithmic scale, the difference of each from the first."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    figure, axes = pyplot.subplots(
        2,
        len(panels),
        figsize=(3.6 * len(panels) + 0.6, 5.4),
        sharex="col",
        squeeze=False,
        gridspec_kw={"height_ratios": (3, 2)},
    )
    for (above, below), panel in zip(axes.T, panels):
        _draw_losses(above, panel)
        _draw_differences(below, panel)
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("relative difference\nfrom the first")
    figure.tight_layout()
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=80)
    pyplot.close(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A third of the bytes.
    Image.open(drawn).convert("RGB").quantize(NUM_COLOURS_KEPT).save(str(path), optimize=True)


def _draw_losses(axis: Any, panel: Panel) -> None:
    window = np.ones(panel.smooth) / panel.smooth
    for number, (name, curve) in enumerate(panel.curves.items()):
        # Curves that are the same hide each other: each is thinner than the one it lies on.
        width = max(1.0, 1.4 * (len(panel.curves) - number))
        steps = np.arange(panel.smooth, len(curve) + 1)
        axis.plot(steps, np.convolve(curve, window, "valid"), COLOURS[number], linewidth=width, label=name)
    smoothed = f", mean of {panel.smooth} steps" if panel.smooth > 1 else ""
    axis.set_title(panel.title + smoothed, fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    axis.grid(alpha=0.25)


def _draw_differences(axis: Any, panel: Panel) -> None:
    reference, *others = panel.curves.values()
    for colour, curve in zip(COLOURS[1:], others):
        apart = np.maximum(relative_difference(curve, reference), NO_DIFFERENCE)
        axis.plot(np.arange(1, len(curve) + 1), apart, colour, linewidth=1.0)
    axis.set(yscale="log", xlabel="step")
    axis.grid(alpha=0.25)
    bars = {panel.bars.get(name, panel.bar) for name in [*panel.curves][1:]} - {None}
    for bar in sorted(bars):
        axis.axhline(
            max(bar, NO_DIFFERENCE), color="black", linestyle="--", linewidth=1, label=f"bar {bar:g}"
        )
    if bars:
        axis.set_ylim(top=20 * max(*bars, 1e-5), bottom=NO_DIFFERENCE / 2)
        axis.legend(fontsize=8, frameon=False, loc="upper right")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}" if value > NO_DIFFERENCE else "0")
