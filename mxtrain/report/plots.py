"""Plots, drawn with matplotlib: the extra `reports`.

Owns how they look. What is drawn comes from the caller, as plain numbers.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Sequence

from mxtrain.core.errors import UsageError

BLUE = "#1f5fa8"


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


def _figure() -> Any:
    """Return a new figure, made without pyplot, which would need a display and keep a global figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("drawing needs matplotlib: pip install 'mxtrain[reports]'") from None
    return Figure(figsize=(9, 6), dpi=120, constrained_layout=True)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}); give another name") from None
