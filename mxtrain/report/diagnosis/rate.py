"""Findings about the learning rate: losses that rise, and steps too long or too short for the weights that they move.

The length of an update beside that of the weights is what a rate comes to, whatever the optimizer: a thousandth to
a hundredth where nets learn well, less where the rate has come down. It needs `layers` records.
"""

from __future__ import annotations

import numpy as np

from mxtrain.report.diagnosis.finding import Finding, Floats, doctor, median, percent, rate_of, steps_of
from mxtrain.report.diagnosis.layers import matrices
from mxtrain.report.diagnosis.learning import first_and_last_losses, share_open
from mxtrain.report.history import History

WINDOW = 20  # losses whose median counts, as of the alarm of dist_async
DIVERGING = 3.0  # times the lowest median
ENOUGH = 0.1  # of the first median: a loss below may rise again without anything being lost
LOST = 3  # steps in a row whose loss is no number, at the end of what was recorded

SPIKE = 3.0  # times the very first loss: an optimizer's first steps may double them
FIRST = 2000  # steps in which a rate that is too high shows by a leap
BARELY_LEARNT = 0.6  # of what there was to learn is still open at the end (`learning.share_open`)
LONG_UPDATE = (
    0.05  # of the weights' length in a step, in the upper quartile: before the rate has come down; small nets
)
# that learn well have up to 0.03
SHORT_UPDATE = (
    1e-4  # also where the rate is highest: a run of 1,000 steps moves its weights by less than a tenth
)
FEWEST_STEPS = 50
FEWEST_SAMPLES = 3  # of `layers`


def diverging(history: History) -> Finding | None:
    """The loss rises for good, or is no number any more."""
    losses = history.column("loss")
    evidence = _lost(history, losses) or _risen(losses)
    if not evidence:
        return None
    title = "The run has diverged" if _lost(history, losses) else "The loss rises for good"
    warmup = "" if history.config.get("warmup_epochs") else " --warmup-epochs 1"
    clip = "" if history.config.get("clip_norm") else " --clip-norm 1"
    advice = f"--lr {_changed(history, 0.1)}{warmup}{clip}: steps were too long for this loss"
    return Finding("diverging", title, evidence, advice, steps_of(history, max(len(losses) - WINDOW, 0)))


def _lost(history: History, losses: Floats) -> tuple[str, ...]:
    is_lost = ~np.isfinite(losses) | ~np.isfinite(history.column("gradient_norm"))
    if "loss" not in history.train or "gradient_norm" not in history.train:
        return ()
    values = [record.get("val_loss", 0.0) for record in history.of_kind("eval")[-1:]]
    if None in values:
        return ("The last evaluation's loss was no number.",)
    if len(losses) < LOST or not is_lost[-LOST:].all():
        return ()
    known = np.flatnonzero(~is_lost)
    began = int(known[-1]) + 1 if len(known) else 0
    before = f" The last finite loss was {losses[known[-1]]:.4g}." if len(known) else ""
    return (f"The loss or its gradient is no number in the last {len(losses) - began} steps.{before}",)


def _risen(losses: Floats) -> tuple[str, ...]:
    if len(losses) < 3 * WINDOW:
        return ()
    cut = losses[len(losses) % WINDOW :].reshape(-1, WINDOW)
    known = np.isfinite(cut).any(axis=1)
    medians = np.nanmedian(cut[known], axis=1)
    if len(medians) < 3 or not medians[0] > 0 or not medians.min() > 0:
        return ()
    lowest = int(medians.argmin())
    last, reference = float(medians[-2:].min()), max(float(medians.min()), ENOUGH * float(medians[0]))
    if lowest >= len(medians) - 2 or not last > DIVERGING * reference:
        return ()
    return (
        f"The loss's median over {WINDOW} steps was {medians[lowest]:.4g} at its lowest and is {medians[-1]:.4g} now.",
    )


def rate_too_high(history: History) -> Finding | None:
    """Steps throw the weights about: the loss leaps at first, or the updates are long, and little is learnt."""
    losses = history.column("loss")
    start = float(losses[0]) if len(losses) else float("nan")  # nothing has moved yet
    if len(losses) < FEWEST_STEPS or not start > 0 or not share_open(history) > BARELY_LEARNT:
        return None
    evidence: tuple[str, ...] = ()
    rolling = _rolling_medians(losses[:FIRST], 5)
    peak = int(np.nanargmax(rolling)) if np.isfinite(rolling).any() else 0
    if rolling[peak] > SPIKE * start:
        evidence += (f"The loss leapt from {start:.4g} to {rolling[peak]:.4g} about step {peak + 3}.",)
    ratios = update_ratios(history)
    long = float(np.quantile(ratios, 0.75)) if len(ratios) >= FEWEST_SAMPLES else 0.0
    if long > LONG_UPDATE:
        evidence += (
            f"Steps move the weights by {percent(long)} of their length and more; 0.1% to 1% is usual.",
        )
    if not evidence:
        return None
    evidence += (f"It began at {start:.4g} and is {median(losses[-WINDOW:]):.4g} now.",)
    advice = f"--lr {_changed(history, 0.1)}: {doctor(history, 'rate')} finds the range of rates that learn"
    return Finding(
        "learning-rate-too-high", "The learning rate is too high", evidence, advice, steps_of(history)
    )


def rate_too_low(history: History) -> Finding | None:
    """Steps hardly move the weights, and the loss has hardly fallen."""
    first, last, window = first_and_last_losses(history)
    ratios = update_ratios(history)
    if history.num_steps < FEWEST_STEPS or len(ratios) < FEWEST_SAMPLES or not first > 0:
        return None
    longest = float(np.nanmax(ratios)) if np.isfinite(ratios).any() else np.nan
    if not longest < SHORT_UPDATE or not share_open(history) > BARELY_LEARNT:
        return None
    evidence = (
        f"A step moves the weights by at most {percent(longest)} of their length; 0.1% to 1% is usual.",
        f"The loss was {first:.4g} over the first {window} steps and is {last:.4g} over the last {window}.",
    )
    advice = f"--lr {_changed(history, 10)}: {doctor(history, 'rate')} finds the range of rates that learn"
    return Finding(
        "learning-rate-too-low", "The learning rate is too low", evidence, advice, steps_of(history)
    )


def update_ratios(history: History) -> Floats:
    """Return for each `layers` record how long its update is beside the weights: the median over the net's matrices."""
    found = []
    for record in history.of_kind("layers"):
        updates, weights = record.get("updates") or {}, record.get("weights") or {}
        ratios = [
            updates[name] / weights[name]
            for name in matrices(record)
            if weights.get(name) and name in updates
        ]
        found.append(median(ratios))
    return np.array([each for each in found if np.isfinite(each)], np.float64)


def _rolling_medians(losses: Floats, width: int) -> Floats:
    windows = np.lib.stride_tricks.sliding_window_view(losses, width)
    known: Floats = np.median(windows, axis=1)  # NaN where one is
    return known


def _changed(history: History, factor: float) -> str:
    rate = rate_of(history)
    return f"{factor * rate:.3g}" if rate > 0 else ("ten times lower" if factor < 1 else "ten times higher")
