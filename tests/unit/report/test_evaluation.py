"""The findings of an evaluation as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.report.evaluation import ReportOptions, in_line, in_words
from mxtrain.tasks.metrics.class_report import ClassReport

HOW: dict[str, Any] = {
    "checkpoints": ["runs/a/checkpoints/step-00000010"],
    "ensemble": False,
    "tta": "",
    "val_loss": 0.5,
}


def findings(num_classes: int, num_samples: int, **others: Any) -> dict[str, Any]:
    """Return those of a net that has learnt half of it, as `evaluate` gives them."""
    rng = np.random.default_rng(0)
    targets = rng.integers(num_classes, size=num_samples)
    scores = rng.normal(size=(num_samples, num_classes)) + 2 * np.eye(num_classes)[targets]
    report = ClassReport(lambda output, arrays: (output, arrays["label"]))
    record = report.record([report.state(scores, {"label": targets})])
    names = [f"class{number}" for number in range(num_classes)]
    return {**HOW, "classes": record, "class_names": names, **others}


def table(text: str, head: str) -> list[list[str]]:
    """The words of the lines of the table whose head begins with these words."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.split()[: len(head.split())] == head.split())
    end = lines.index("", first) if "" in lines[first:] else len(lines)
    return [line.split() for line in lines[first + 1 : end]]


def test_few_classes_are_all_told_in_their_order_or_by_a_column() -> None:
    found = findings(5, 200)
    rows = table(in_words(found, ReportOptions()), "class samples")
    assert [row[0] for row in rows] == [*found["class_names"], "mean"]
    support = np.array(found["classes"]["support"])
    f1 = [2 * p * r / (p + r) for p, r in zip(found["classes"]["precision"], found["classes"]["recall"])]
    assert [float(row[4]) for row in rows[:-1]] == pytest.approx(f1, abs=5e-5)
    assert float(rows[-1][4]) == pytest.approx(np.mean(f1), abs=5e-5) and rows[-1][1] == str(support.sum())
    for column, place in (("support", 1), ("precision", 2), ("recall", 3), ("f1", 4)):
        rows = table(in_words(found, ReportOptions(sort=column)), "class samples")[:-1]
        shown = [float(row[place]) for row in rows]
        assert shown == sorted(shown) and len(rows) == 5


def test_the_matrix_holds_every_answer() -> None:
    found = findings(5, 200)
    cells = [row[1:] for row in table(in_words(found, ReportOptions()), "class \\ answer")]
    counts = np.array([[0 if cell == "." else int(cell) for cell in row] for row in cells])
    assert counts.sum(axis=1).tolist() == found["classes"]["support"]
    for true, answer, count in found["classes"]["confusion"]:
        assert counts[true, answer] == count


def test_of_hundreds_of_classes_the_worst_are_told_unless_all_are_wanted() -> None:
    found = findings(300, 3000)
    text = in_words(found, ReportOptions())
    *rows, rest, mean = table(text, "class samples")
    f1 = [float(row[4]) for row in rows]
    assert f1 == sorted(f1) and f1[0] == pytest.approx(min(found["classes"]["f1"]), abs=5e-5)
    assert rest[:4] == ["...", "280", "more", "classes,"] and mean[0] == "mean"
    pairs = table(text, "class taken for")
    assert len(pairs) == 11 and pairs[-1][0] == "..." and "class \\ answer" not in text
    whole = in_words(found, ReportOptions(is_whole=True))
    assert len(table(whole, "class samples")) == 301
    assert len(table(whole, "class taken for")) == len(found["classes"]["confusion"])


def test_classes_that_never_came_or_were_never_named_have_no_shares() -> None:
    report = ClassReport(lambda output, arrays: (output, arrays["label"]))
    state = report.state(np.eye(4)[[0, 0, 1]] * 9, {"label": np.array([0, 2, 1])})
    found = {**HOW, "classes": report.record([state]), "class_names": ["a", "b", "c", "d"]}
    rows = {row[0]: row[1:] for row in table(in_words(found, ReportOptions()), "class samples")}
    assert rows["c"] == ["1", "-", "0.0000", "0.0000"] and rows["d"] == ["0", "-", "-", "-"]
    assert rows["mean"] == ["3", "0.5000", "0.6667", "0.5556"]  # over three classes
    last = [row[0] for row in table(in_words(found, ReportOptions(sort="precision")), "class samples")]
    assert last == ["a", "b", "c", "d", "mean"]


def test_calibration_says_which_way_it_is_wrong() -> None:
    report = ClassReport(lambda output, arrays: (output, arrays["label"]))
    for labels, word in (([0, 0, 0, 0], "0.119 less sure"), ([0, 1, 1, 1], "0.631 surer")):
        state = report.state(np.array([[2.0, 0.0]] * 4), {"label": np.array(labels)})
        text = in_words(
            {**HOW, "classes": report.record([state]), "class_names": ["a", "b"]}, ReportOptions()
        )
        assert f"on the whole the net is {word} than it is right" in text


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (
            {"label": 0, "predicted": 1, "probability": 0.9, "label_probability": 0.05},
            "a (0.050), taken for b (0.900)",
        ),
        (
            {"label": 1, "predicted": 1, "probability": 0.6, "label_probability": 0.6},
            "b, taken for it with 0.600",
        ),
        ({"labels": [0], "wrong": [[1, 0.75]]}, "a; wrong: b 0.750"),
        ({"labels": [], "wrong": []}, "none of the classes"),
        ({"label": [1.5, 2.0], "predicted": [1.25, 9.0]}, "1.5, 2, predicted 1.25, 9"),
        ({"label": [1.7e9], "predicted": [1.7e9 + 4.25]}, "1700000000, predicted 1700000004"),
        ({"words": 7, "wrong": [[3, "O", "B-PER"]]}, "7 words; word 3 is O, taken for B-PER"),
        ({"words": 7, "wrong": []}, "7 words"),
        ({"tokens": 128, "perplexity": 21.25}, "tokens 128, perplexity 21.25"),
        ({}, ""),
    ],
)
def test_the_worst_samples_are_told_as_their_task_has_it(sample: dict[str, Any], words: str) -> None:
    worst = [{"sample": 3, "loss": 2.5, "where": "v.rec: record 3", **sample}]
    text = in_words({**HOW, "worst": worst, "class_names": ["a", "b"]}, ReportOptions())
    assert text.splitlines()[-1] == "  loss 2.5  v.rec: record 3" + (f": {words}" if words else "")


def test_a_net_without_findings_is_named_all_the_same() -> None:
    assert in_words(HOW, ReportOptions()) == "checkpoint runs/a/checkpoints/step-00000010"


def test_the_five_likeliest_of_five_classes_are_not_worth_a_word() -> None:
    numbers = {"val_loss": 0.25, "val_accuracy": 0.5, "val_top5_accuracy": 1.0, "num_samples": 8}
    assert in_line(numbers, 2) == "val_loss 0.25, val_accuracy 0.5, num_samples 8"
    assert in_line(numbers, 5) == in_line(numbers, 2)
    assert "val_top5_accuracy 1, " in in_line(numbers, 6)
    assert "top5" in in_line(numbers, 0)
