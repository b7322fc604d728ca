"""Findings about the data: classes that come too seldom, and labels that are probably wrong."""

from __future__ import annotations

import numpy as np

from mxtrain.report.diagnosis.finding import Finding, as_number, listed, numbers, numbers_of, percent, setting
from mxtrain.report.history import History, Record

RARE = 0.2  # of the mean number of samples a class
FEWEST_RARE = 5  # samples of the rare classes together: of fewer no recall can be told
LOST_RECALL = 0.25  # by so much the rare classes' recall is below that of the others
SURE = 0.9  # probability of the class that the net answers
UNLIKELY = 0.05  # that of its label, at most
FEWEST_SUSPECTS = 5  # digits have two or three of which people say the same
LEAST_SHARE = 0.5  # of all wrong answers (of the recorded ones) that are so sure: nets that guess are not
LEAST_RIGHT = 0.7  # accuracy: whoever answers worse has no say about labels
SHOWN = 8


def imbalance(history: History) -> Finding | None:
    """Rare classes are not learnt beside frequent ones."""
    reports = history.of_kind("classes")
    if not reports:
        return None
    support = numbers_of(reports[-1], "support")
    recall = numbers_of(reports[-1], "recall")
    if len(support) < 2 or len(support) != len(recall):
        return None
    present = support > 0
    rare = present & (support <= RARE * support[present].mean()) if present.any() else present
    if len(support) == 2:  # of two the mean says little: 9 to 1 is rare
        rare = present & (support <= RARE * support.max())
    others = present & ~rare
    if not rare.any() or not others.any() or support[rare].sum() < FEWEST_RARE:
        return None
    of_rare, of_others = (
        float(np.nansum(support[each] * recall[each]) / support[each].sum()) for each in (rare, others)
    )
    if not of_rare < of_others - LOST_RECALL:
        return None
    step = int(reports[-1]["step"])
    classes = listed(f"{index} ({support[index]:.0f})" for index in np.flatnonzero(rare))
    unit = "pixels" if "iou" in reports[-1] else "samples"
    evidence = (
        f"{int(rare.sum())} of {int(present.sum())} classes are rare in validation, with {support[rare].sum():.0f} of "
        f"{support.sum():.0f} {unit}; by their place in the class list, with their {unit}: {classes}.",
        f"Of their {unit} {percent(of_rare)} are found, of the others {percent(of_others)}.",
    )
    if reports[-1].get("has_background"):
        advice = "more pictures that show them, or the same ones more often in --train"
    elif "iou" in reports[-1] and setting(history, "class_weights", "none") == "none":
        advice = "--class-weights auto: pixels of rare classes count more; or more pictures that show them"
    elif (
        setting(history, "sampling", "once") == "balanced"
        or setting(history, "class_weights", "none") != "none"
    ):
        advice = "--metric balanced_accuracy --score balanced_accuracy: keeps what does best by them; or more samples"
    else:
        advice = (
            "--sampling balanced: each class is shown as often; or --class-weights auto; --score macro_f1"
        )
    return Finding("class-imbalance", "Rare classes are not learnt", evidence, advice, (step, step))


def label_noise(history: History) -> Finding | None:
    """The net answers right nearly always, and yet is sure of other classes than some labels say."""
    best = _best_evaluation(history)
    # A net that has learnt its samples by heart is sure of all it says: the best evaluation counts, and the one before.
    reports = [record for record in history.of_kind("worst") if best and record["step"] <= best["step"]][-2:]
    if best is None or len(reports) < 2:
        return None
    accuracy, num_samples = as_number(best.get("val_accuracy")), as_number(best.get("num_samples"))
    before, last = map(_sure_of_others, reports)
    suspects = [sample for sample in last if before.get(sample) == last[sample]]
    wrong = [each for each in _samples(reports[-1]) if each.get("label") != each.get("predicted")]
    if not accuracy >= LEAST_RIGHT or len(suspects) < max(FEWEST_SUSPECTS, LEAST_SHARE * len(wrong)):
        return None
    step = int(reports[-1]["step"])
    of = f" of {num_samples:.0f}" if np.isfinite(num_samples) else ""
    names = listed(
        (
            f"{sample} (label {label}, answered {predicted})"
            for sample, (label, predicted) in ((each, last[each]) for each in suspects)
        ),
        SHOWN,
    )
    evidence = (
        f"Accuracy is {accuracy:.3f}, but for {len(suspects)} samples{of} two evaluations in a row gave the same other "
        f"class more than {percent(SURE)} and the label less than {percent(UNLIKELY)}.",
        f"By their position in --val: {names}.",
        f"That is {percent(len(suspects) / len(wrong))} of the {len(wrong)} worst answers.",
    )
    advice = (
        "--label-smoothing 0.1: wrong labels cost less; the page of the run shows these samples, and python -m "
        "tools.im2rec_wrapper check finds pictures that have two labels; wrong ones here mean as many in --train"
    )
    return Finding("label-noise", "Some labels are probably wrong", evidence, advice, (step, step))


def _best_evaluation(history: History) -> Record | None:
    evaluations = history.of_kind("eval")
    losses = numbers(evaluations, "val_loss")
    return evaluations[int(np.nanargmin(losses))] if np.isfinite(losses).any() else None


def _samples(record: Record) -> list[Record]:
    found = record.get("samples")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _sure_of_others(record: Record) -> dict[int, tuple[int, int]]:
    """Return label and answer of the samples of whose label the net is sure that it is another."""
    return {
        each["sample"]: (each["label"], each["predicted"])
        for each in _samples(record)
        if as_number(each.get("probability")) >= SURE
        and as_number(each.get("label_probability")) <= UNLIKELY
        and each.get("label") != each.get("predicted")
        and "sample" in each
    }
