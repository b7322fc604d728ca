"""The findings of an evaluation as text for a terminal: classes, what was confused, calibration, the worst samples.

Owns the text alone. The records are made in `tasks/metrics/class_report.py` and `train/telemetry/worst_samples.py`;
docs/records.md tells what is in them.
"""

from __future__ import annotations

import math
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from mxtrain.core import plain_text

Record = Mapping[str, Any]

BACKGROUND = "background"  # what a detection of nothing shows, and what a box that was missed is taken for
COLUMNS = ("support", "precision", "recall", "f1")  # by which classes can be sorted
AVERAGES = ("ap", "ap_50", "ap_voc", "iou")  # average precisions of detections, and overlaps of masks
MOST_CLASSES, MOST_SHOWN = 30, 20  # of more classes than the former as many as the latter are shown
MOST_PAIRS, MOST_SAMPLES = 10, 5
MATRIX_CLASSES = 12  # in a matrix that fits a terminal
LONGEST_NAME = 24
SCORED = 6  # numbers of a detection: class, score and corners
BAR = 30  # columns


class ReportOptions(NamedTuple):
    """The parts of it that are wanted."""

    sort: str = ""  # one of COLUMNS, lowest first; the order of the class list if empty
    is_whole: bool = False  # all classes, and all that were confused


def in_line(scores: Mapping[str, float], num_classes: int) -> str:
    """Return the numbers of an evaluation in a line.

    Of up to five classes, where 0 stands for an unknown number, each is among the five likeliest: that is left out.
    """
    left_out = "val_top5_accuracy" if 0 < num_classes <= 5 else ""
    return ", ".join(f"{name} {value:.6g}" for name, value in scores.items() if name != left_out)


def in_words(findings: Record, choice: ReportOptions) -> str:
    """Return what an evaluation has found, as `evaluate(report=True)` gives it, besides its numbers; '' if nothing."""
    names = findings.get("class_names", [])
    classes = findings.get("classes")
    if classes and classes.get("has_background"):
        names = [*names, BACKGROUND]
    parts = [_how(findings)]
    if classes:
        parts += [_classes(classes, names, choice), _confused(classes, names, choice)]
        parts += [_matrix(classes, names), _calibration(classes)]
    parts += [_targets(findings), _worst(findings.get("worst", []), names)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _how(findings: Record) -> list[str]:
    """Return which checkpoints were evaluated, and how."""
    checkpoints = findings["checkpoints"]
    if len(checkpoints) == 1:
        lines = [f"checkpoint {checkpoints[0]}"]
    else:
        mean = "answers" if findings["ensemble"] else "weights"
        lines = [
            f"the mean of the {mean} of {len(checkpoints)} checkpoints:",
            *(f"  {each}" for each in checkpoints),
        ]
    if findings["tta"]:
        lines.append(f"the mean answer to views of each picture: --tta {findings['tta']}")
    if findings.get("masks_at"):
        lines.append(
            f"masks judged in the sizes of the pictures as they came: --masks-at {findings['masks_at']}"
        )
    if not math.isfinite(findings["val_loss"]):
        lines.append("its loss is not finite, as of a net that has diverged; --checkpoint has others")
    return lines


def _classes(record: Record, names: Sequence[str], choice: ReportOptions) -> list[str]:
    """Return the table of classes, and the means over those that occur or are named."""
    support = record["support"]
    is_cut = len(support) > MOST_CLASSES and not choice.is_whole
    order = sorted(range(len(support)), key=_key(record, choice.sort or ("f1" if is_cut else "")))
    shown = order[:MOST_SHOWN] if is_cut else order
    columns = [*COLUMNS[1:], *(key for key in AVERAGES if key in record)]
    rows = [[_cut(names[i]), str(support[i]), *(_share(record[key][i]) for key in columns)] for i in shown]
    counted = [i for i in order if support[i] or record["precision"][i] is not None]
    means = [
        _share(sum(record[key][i] or 0.0 for i in counted) / max(1, len(counted))) for key in COLUMNS[1:]
    ]
    means += [_share(_mean_of_known(record[key])) for key in columns[len(means) :]]
    rows.append(["mean", str(sum(support)), *means])
    lines = _table(["class", _unit(record), *columns], rows)
    if is_cut:
        by = f"the lowest {choice.sort or 'f1'} first"
        lines.insert(-1, f"... {len(order) - len(shown)} more classes, {by}; --all shows them")
    if "least_score" in record:
        lines.append(
            f"precision, recall and f1 are of detections that score {record['least_score']:.3g} or more, where the F1 "
            "of all classes together is largest"
        )
    return lines


def _unit(record: Record) -> str:
    """Return what the support of a class counts."""
    return "boxes" if "ap" in record else "pixels" if "iou" in record else "samples"


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _key(record: Record, column: str) -> Any:
    """Return the key by which classes are sorted: lowest first, without a number last, of equals the largest first."""
    if not column:
        return lambda i: i
    values, support = record[column], record["support"]
    return lambda i: (values[i] is None, values[i] or 0.0, -support[i], i)


def _confused(record: Record, names: Sequence[str], choice: ReportOptions) -> list[str]:
    """Return what was taken for something else most often; of several labels a sample nothing is confused."""
    pairs = record.get("confusion", [])
    shown = pairs if choice.is_whole else pairs[:MOST_PAIRS]
    rows = [
        [_cut(names[true]), _cut(names[answer]), str(count), _share(_part(count, record["support"], true))]
        for true, answer, count in shown
    ]
    if not rows:
        return []
    lines = _table(["class", "taken for", _unit(record), "of the class"], rows, num_words=2)
    left = len(pairs) - len(shown)
    return lines + ([f"... {left} more pairs; --all shows them"] if left else [])


def _part(count: int, support: Sequence[int], true: int) -> float | None:
    """Return the share of a class that is so many samples; the background has no size."""
    return count / support[true] if true < len(support) else None


def _matrix(record: Record, names: Sequence[str]) -> list[str]:
    """Return how often each class was taken for each, of few classes."""
    support = record["support"]
    if not record.get("confusion") or len(support) > MATRIX_CLASSES:
        return []
    counts = [[0] * len(names) for _ in names]
    for i, hit in enumerate(record["recall"]):
        counts[i][i] = round((hit or 0.0) * support[i])
    for true, answer, count in record["confusion"]:
        counts[true][answer] = count
    short = [name[:8] for name in names]
    rows = [
        [_cut(names[i]), *(str(count) if count else "." for count in counts[i])] for i in range(len(names))
    ]
    return _table(["class \\ answer", *short], rows)


def _calibration(record: Record) -> list[str]:
    """Return how often answers are right by how sure the net is of them."""
    bins = record.get("bins")
    if not bins:
        return []
    total = sum(count for _, _, count in bins)
    rows = [
        [f"{sure:.3f}", f"{right:.3f}", str(count), "#" * max(1, round(BAR * count / total))]
        for sure, right, count in bins
    ]
    lines = _table(["confidence", "right", "answers", ""], rows, num_words=0)
    apart = sum((sure - right) * count for sure, right, count in bins) / total
    verdict = f"{abs(apart):.3f} {'surer' if apart > 0 else 'less sure'} than it is right"
    return [*lines, f"expected calibration error {record['ece']:.4g}; on the whole the net is {verdict}"]


def _targets(findings: Record) -> list[str]:
    """Return the errors of each of several numbers."""
    metrics = ("mae", "rmse", "r2")
    rows = [
        [name, *(f"{findings[f'val_{metric}_{name}']:.6g}" for metric in metrics)]
        for name in findings.get("target_names", [])
        if f"val_mae_{name}" in findings
    ]
    return _table(["target", *metrics], rows) if rows else []


def _worst(samples: Sequence[Record], names: Sequence[str]) -> list[str]:
    """Return the samples with the largest losses."""
    if not samples:
        return []
    lines = []
    for sample in samples[:MOST_SAMPLES]:
        described = _describe(sample, names)
        lines.append(f"  loss {sample['loss']:.4g}  {sample['where']}{described and f': {described}'}")
    return ["the largest losses:", *lines]


def _describe(sample: Record, names: Sequence[str]) -> str:
    """Return what the task says of a sample (docs/records.md), in words."""
    if "detections" in sample:
        return f"has {boxes_in_words(sample['boxes'], names)}; detected {boxes_in_words(sample['detections'], names)}"
    if "ious" in sample:
        overlaps = ", ".join(f"{names[number]} {iou:.2f}" for number, iou in sample["ious"])
        taken = ", ".join(f"{names[true]} taken for {names[other]}" for true, other, _ in sample["taken_for"])
        return f"IoU of {overlaps or 'nothing'}" + (f"; {taken}" if taken else "")
    if "label_probability" in sample:
        answer, sure = names[sample["predicted"]], sample["probability"]
        if sample["predicted"] == sample["label"]:
            return f"{answer}, taken for it with {sure:.3f}"
        return (
            f"{names[sample['label']]} ({sample['label_probability']:.3f}), taken for {answer} ({sure:.3f})"
        )
    if "labels" in sample:
        wrong = [f"{names[label]} {share:.3f}" for label, share in sample["wrong"]]
        has = ", ".join(names[label] for label in sample["labels"]) or "none of the classes"
        return f"{has}; wrong: {', '.join(wrong)}" if wrong else has
    if "predicted" in sample:
        label, answer = (
            ", ".join(plain_text.number(value, 6) for value in sample[key]) for key in ("label", "predicted")
        )
        return f"{label}, predicted {answer}"
    if "words" in sample:
        wrong = [f"word {place} is {true}, taken for {answer}" for place, true, answer in sample["wrong"][:3]]
        return f"{sample['words']} words; {', '.join(wrong)}" if wrong else f"{sample['words']} words"
    others = {key: value for key, value in sample.items() if key not in ("sample", "loss", "where")}
    return ", ".join(f"{key} {_plain(value)}" for key, value in others.items())


def boxes_in_words(rows: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """Return boxes, or detections with their scores (docs/records.md), as the names of their classes."""
    words = [
        f"{names[int(row[0])] if row[0] < len(names) else f'class {row[0]}'}"
        + (f" {row[1]:.2f}" if len(row) == SCORED else "")
        for row in rows
    ]
    return ", ".join(words) or "nothing"


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], num_words: int = 1) -> list[str]:
    """Return lines of columns: as many of words as said, to the left, and numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]

    def line(cells: Sequence[str]) -> Iterator[str]:
        for place, (cell, width) in enumerate(zip(cells, widths)):
            is_word = place < num_words or cell.startswith("#")
            yield cell.ljust(width) if is_word else cell.rjust(width)

    return ["  ".join(line(cells)).rstrip() for cells in (head, *rows)]
