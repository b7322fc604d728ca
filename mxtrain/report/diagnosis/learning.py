"""Findings about what is learnt: too well by heart, too little, nothing, or unseen.

They look at the loss of training between two evaluations beside that of the evaluation. Losses may be of any kind, so
thresholds are shares of the run's own first loss, and of what its labels leave open where classes are told.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mxtrain.report.diagnosis.finding import (
    Finding,
    Floats,
    as_number,
    median,
    numbers,
    percent,
    setting,
    steps_of,
)
from mxtrain.report.history import History

FEWEST_EVALUATIONS = 5  # below, running statistics may not have settled, and a best one is chance
NEWEST = 3  # evaluations whose median counts: one by itself may be odd
LEAST_RISE = 0.2  # of the validation loss above its lowest: smaller rises come and go in healthy runs
FALL_MEANWHILE = 0.1  # of the training loss: where that rises too, the run is diverging and not overfitting
SMALL_LOSS = 0.02  # of the first training loss: below, a rise is no matter, as from 0.001 to 0.002
LEAST_GAP = 0.1  # of accuracy between training and validation; healthy runs on small sets show up to 0.05
STANDARD_ERRORS = 4.0  # a gap is more than that, of the accuracy on so few samples
LEAST_RATIO = 2.5  # of the validation loss to that of training, where there is no accuracy
LEAST_LOSS_GAP = 0.15  # and their difference as a share of the first training loss

MOST_OPEN = (
    0.5  # of the labels' entropy that both losses leave; ImageNet's nets end below 0.2, digits below 0.05
)
LEAST_R2 = 0.5
STILL_FALLING = 0.03  # of the validation loss in the last third of the run: more time would help

NOT_FALLEN = (
    0.98  # of the first losses; noise between windows of a tenth of a run is far smaller than its fall
)
FEWEST_STEPS = 100
WINDOW_SHARE = 0.1  # of a run's steps, and at least ten: the losses that are compared


class _Curve(NamedTuple):
    """The evaluations, each beside the means of the training steps since the one before; NaN for what is unknown."""

    steps: Floats
    train_loss: Floats
    val_loss: Floats
    train_accuracy: Floats
    val_accuracy: Floats
    num_samples: Floats


def overfitting(history: History) -> Finding | None:
    """Training goes on to improve what validation does not share."""
    if setting(history, "overfit", 0):  # asked for
        return None
    curve = _curve(history)
    first = float(median(history.column("loss")[:5]))
    if len(curve.steps) < FEWEST_EVALUATIONS or not first > 0:
        return None
    evidence = _rise(curve, first) + _accuracy_gap(curve)
    if not evidence and not setting(history, "teacher"):
        evidence = _loss_gap(curve, first)
    if not evidence:
        return None
    lowest = int(np.nanargmin(curve.val_loss))
    steps = (int(curve.steps[lowest]), int(curve.steps[-1]))
    return Finding(
        "overfitting", "It learns its samples by heart", evidence, _against_overfitting(history), steps
    )


def _rise(curve: _Curve, first: float) -> tuple[str, ...]:
    val, train = curve.val_loss, curve.train_loss
    if not np.isfinite(val).any():
        return ()
    lowest, now = int(np.nanargmin(val)), median(val[-NEWEST:])
    rises = now - val[lowest] > max(LEAST_RISE * abs(val[lowest]), SMALL_LOSS * first)
    falls = median(train[-NEWEST:]) < (1 - FALL_MEANWHILE) * train[lowest]
    # A net that grows too sure of itself may still answer better: that harms probabilities, not answers.
    improves = median(curve.val_accuracy[-NEWEST:]) > curve.val_accuracy[lowest] + 0.005
    if len(val) - 1 - lowest < NEWEST or not (rises and falls) or improves:
        return ()
    return (
        f"The validation loss was lowest at step {curve.steps[lowest]:.0f} with {val[lowest]:.4g} and is {now:.4g} "
        f"now, while the training loss has fallen from {train[lowest]:.4g} to {median(train[-NEWEST:]):.4g}.",
    )


def _accuracy_gap(curve: _Curve) -> tuple[str, ...]:
    train, val = curve.train_accuracy[-NEWEST:], curve.val_accuracy[-NEWEST:]
    error = np.sqrt(np.clip(val * (1 - val), 1e-4, None) / np.maximum(curve.num_samples[-NEWEST:], 1))
    if not (train - val > np.maximum(LEAST_GAP, STANDARD_ERRORS * error)).all():
        return ()
    return (
        f"Accuracy is {median(train):.3f} on the samples it trains on and {median(val):.3f} on those of validation.",
    )


def _loss_gap(curve: _Curve, first: float) -> tuple[str, ...]:
    train, val = curve.train_loss[-NEWEST:], curve.val_loss[-NEWEST:]
    if np.isfinite(curve.val_accuracy[-NEWEST:]).any():  # which is the better witness
        return ()
    if not ((val > LEAST_RATIO * np.abs(train)) & (val - train > LEAST_LOSS_GAP * first)).all():
        return ()
    return (
        f"The validation loss is {median(val):.4g}, {median(val) / median(train):.1f} times that of training.",
    )


def _against_overfitting(history: History) -> str:
    rest = "more data, a smaller --model or a higher --weight-decay help too"
    is_of_pictures = setting(history, "task", "classification") in ("classification", "multilabel")
    if is_of_pictures and setting(history, "augment", "") in ("none", ""):
        return f"--augment resized_crop+flip: or what keeps your classes, as pad_crop:pad=2; {rest}"
    return (
        f"--early-stop {NEWEST}: it ends a run when this begins; the best checkpoint is kept anyway; {rest}"
    )


def underfitting(history: History) -> Finding | None:
    """Neither training nor validation is learnt, at the end of the run or where it has stopped to improve."""
    if setting(history, "overfit", 0):
        return None
    curve = _curve(history)
    if len(curve.steps) < FEWEST_EVALUATIONS:
        return None
    evidence = _open_share(history, curve) + _low_r2(history)
    third = max(len(curve.steps) // 3, 2)
    before, now = median(curve.val_loss[-third - 2 : -third + 1]), median(curve.val_loss[-NEWEST:])
    still_falls = now < (1 - STILL_FALLING) * before
    has_ended = any(record.get("event") == "end" for record in history.of_kind("event"))
    if not evidence or (still_falls and not has_ended):
        return None
    if still_falls:
        epochs = as_number(setting(history, "epochs"))
        twice = f"{2 * epochs:.0f}" if epochs > 0 else "2N"
        evidence += (f"The validation loss still falls: {before:.4g} to {now:.4g} in the last third.",)
        advice = f"--epochs {twice}: it ended before it had learnt; a higher --lr may do it in the same time"
    else:
        evidence += (f"It no longer falls: {before:.4g} to {now:.4g} in the last third.",)
        advice = "--model: one with more or other layers; less --augment and --weight-decay; or the inputs tell no more"
    steps = (int(curve.steps[-third]), int(curve.steps[-1]))
    return Finding("underfitting", "It does not even fit what it trains on", evidence, advice, steps)


def _open_share(history: History, curve: _Curve) -> tuple[str, ...]:
    """Return the evidence of classes: how much of the labels' entropy is left open. Of cross entropies alone."""
    entropy = label_entropy(history)
    train, val = median(curve.train_loss[-NEWEST:]), median(curve.val_loss[-NEWEST:])
    if not entropy > 0 or not min(train, val) > MOST_OPEN * entropy:
        return ()
    return (
        f"A net that knew only how often each class comes would have a loss of {entropy:.3g}; this one still has "
        f"{train:.3g} in training and {val:.3g} in validation: it explains {percent(max(0.0, 1 - val / entropy))}.",
    )


def _low_r2(history: History) -> tuple[str, ...]:
    r2 = numbers(history.of_kind("eval"), "val_r2")[-NEWEST:]
    if not len(r2) or not (r2 < LEAST_R2).all():
        return ()
    return (f"r2 is {median(r2):.3f}: the mean alone would have 0, a net that knows all 1.",)


def label_entropy(history: History) -> float:
    """Return the entropy of the validation labels in nats: the loss of a net that knows the classes' shares alone.

    NaN where there are no classes, where a sample has several, or where the loss is no cross entropy.
    """
    reports = history.of_kind("classes")
    is_plain = setting(history, "loss", "") in ("", "auto", "cross_entropy")
    is_plain = is_plain and setting(history, "class_weights", "none") == "none"
    if not reports or not is_plain or setting(history, "task", "classification") == "multilabel":
        return float("nan")
    if reports[-1].get("has_background"):  # boxes: their loss is no cross entropy of classes alone
        return float("nan")
    support = np.array([as_number(each) for each in reports[-1].get("support") or []], np.float64)
    if not len(support) or not np.nansum(support) > 0:
        return float("nan")
    shares = support[support > 0] / np.nansum(support)
    return float(-(shares * np.log(shares)).sum())


def nothing_learnt(history: History) -> Finding | None:
    """The loss is what it was at the first steps."""
    first, last, window = first_and_last_losses(history)
    if history.num_steps < FEWEST_STEPS or setting(history, "pretrained") or not first > 0:
        return None
    if not NOT_FALLEN * first < last < first / NOT_FALLEN or last < 0.8 * label_entropy(history):
        return None
    evidence = (
        f"The loss was {first:.4g} over the first {window} steps and is {last:.4g} over the last {window}.",
    )
    advice = (
        "--overfit 1: it shows whether the net can learn a single batch; if not, look at the loss, --freeze, the "
        "labels and the inputs' scale; if it can, try other values of --lr"
    )
    return Finding("nothing-learnt", "The loss does not move", evidence, advice, steps_of(history))


def first_and_last_losses(history: History) -> tuple[float, float, int]:
    """Return the medians of the first and the last losses, and of how many steps each is."""
    losses = history.column("loss")
    window = max(10, int(WINDOW_SHARE * len(losses)))
    return median(losses[: min(window, 50)]), median(losses[-window:]), window


def share_open(history: History) -> float:
    """Return how much of what there was to learn is open: the last losses by the labels' entropy, or the first ones."""
    first, last, _ = first_and_last_losses(history)
    first = float(np.fmin(first, history.column("loss")[0]))  # the first losses may have leapt
    entropy = label_entropy(history)
    return last / (entropy if entropy > 0 else first) if first > 0 else float("nan")


def validation_missing(history: History) -> Finding | None:
    """Nothing is evaluated, so nobody knows what was learnt but by heart."""
    is_known = history.config and not (setting(history, "val") or setting(history, "overfit", 0))
    if not is_known or history.of_kind("eval") or history.num_steps < FEWEST_STEPS:
        return None
    evidence = (f"{history.num_steps} steps were trained and nothing was evaluated.",)
    advice = "--val FILE: without it overfitting is not seen, no checkpoint is the best, and --early-stop has no score"
    return Finding("no-validation", "Nothing is validated", evidence, advice)


def _curve(history: History) -> _Curve:
    records = history.of_kind("eval")
    ends = numbers(records, "step")
    steps = history.column("step")
    bounds = np.searchsorted(steps, ends, side="right")
    starts = np.concatenate([[0], bounds[:-1]]).astype(int)

    def means(name: str) -> Floats:
        values = history.column(name)
        return np.array(
            [
                np.nanmean(part) if np.isfinite(part := values[a:b]).any() else np.nan
                for a, b in zip(starts, bounds)
            ]
        )

    return _Curve(
        ends,
        means("loss"),
        numbers(records, "val_loss"),
        means("accuracy"),
        numbers(records, "val_accuracy"),
        numbers(records, "num_samples"),
    )
