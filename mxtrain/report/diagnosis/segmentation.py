"""Findings about masks: nets that answer with one class everywhere."""

from __future__ import annotations

from mxtrain.report.diagnosis.finding import Finding, numbers_of, percent, setting, steps_of
from mxtrain.report.history import History

FEWEST_STEPS = 100
NEWEST = 3  # evaluations that have to agree


def one_class(history: History) -> Finding | None:
    """Nearly all pixels are answered as the class that most of them have, and other classes have pixels too."""
    reports = [each for each in history.of_kind("classes") if "iou" in each][-NEWEST:]
    if len(reports) < NEWEST or history.num_steps < FEWEST_STEPS:
        return None
    for report in reports:
        support, overlaps = numbers_of(report, "support"), numbers_of(report, "iou")
        present = support > 0
        if present.sum() < 2 or (overlaps[present] > 0).sum() != 1:
            return None
    largest = float(support.max() / support.sum())
    evidence = (
        f"At the last {NEWEST} evaluations one class has an IoU above 0, of {int(present.sum())} that have pixels.",
        f"The class with most pixels has {percent(largest)} of them: to answer it alone is right so often.",
    )
    if setting(history, "class_weights", "none") == "none":
        advice = "--class-weights auto: pixels of rare classes count more"
    else:
        advice = (
            "--overfit 1: whether a net can learn one batch; if not, masks may be wrong (`python -m "
            "tools.im2rec_wrapper check` and `show`), else give --pretrained a backbone, or another --lr"
        )
    return Finding("one-class-masks", "One class is answered everywhere", evidence, advice, steps_of(history))
