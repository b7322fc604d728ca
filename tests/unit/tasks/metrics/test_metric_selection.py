"""--metric and --score: what fits, what is refused, and metrics of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components import metrics
from mxtrain.core.errors import UsageError, user_message
from mxtrain.tasks import registry
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.metrics.metric_selection import MetricSelection
from mxtrain.tasks.task import Score, Task

OWN = "tests.support.user_code.user_metrics"
DESCRIPTIONS = {
    "classification": {"class_names": ["a", "b", "c"]},
    "multilabel": {"class_names": ["a", "b", "c"]},
    "tests.support.user_code.majority:Majority": {"words": 10},
    "lm": {"tokenizer": "bytes", "vocab_size": 257, "end_token": 256, "window": 8},
}


def task_of(flags: str, task: str) -> Task:
    run = config.parse(["--train", "t.rec", "--val", "v.rec", "--task", task, *flags.split()])
    return registry.of_description(run, DESCRIPTIONS[task])


def chosen(flags: str, task: str = "classification") -> MetricSelection:
    return metric_selection.of_task(task_of(flags, task))


class Output:
    def __init__(self, values: Any):
        self.asnumpy = lambda: np.asarray(values, np.float32)


def numbers(found: MetricSelection, outputs: list[Any], labels: list[Any]) -> dict[str, float]:
    """The numbers of an evaluation of these micro-batches."""
    given: dict[str, float] = {}
    for metric in found.metrics:
        states = [
            metric.state(Output(output), {"label": np.array(label, np.float32)})
            for output, label in zip(outputs, labels)
        ]
        given.update(metric.finish(states))
    return given


@pytest.mark.parametrize(
    ("flags", "task", "score"),
    [
        ("", "classification", ("accuracy", False)),
        ("--score loss", "classification", ("loss", True)),
        ("--score val_loss", "classification", ("loss", True)),
        ("--score top5_accuracy", "classification", ("top5_accuracy", False)),
        ("--metric macro_f1,auc --score auc", "classification", ("auc", False)),
        ("--metric topk:k=2 --score top2_accuracy", "classification", ("top2_accuracy", False)),
        ("--score micro_f1", "multilabel", ("micro_f1", False)),
        ("", "tests.support.user_code.majority:Majority", ("loss", True)),
        ("--score auc", "tests.support.user_code.majority:Majority", ("auc", False)),
        (f"--metric {OWN}:regret --score regret", "classification", ("regret", True)),
        (f"--metric {OWN}:several --score worst", "classification", ("worst", True)),
        (f"--metric {OWN}:several --score best", "classification", ("best", False)),
        (f"--metric {OWN}:Counting --score samples", "classification", ("samples", False)),
    ],
)
def test_the_score_and_its_direction(flags: str, task: str, score: Score) -> None:
    assert chosen(flags, task).score == score


@pytest.mark.parametrize(
    ("flags", "task", "words"),
    [
        (
            "--score auc",
            "classification",
            r"--score auc: no number .*accuracy, top5_accuracy, ece; --metric adds others",
        ),
        ("--score acuracy", "classification", "did you mean 'accuracy'"),
        (
            "--metric mae",
            "classification",
            "--metric mae: does not fit --task classification; it takes accuracy, topk",
        ),
        ("--metric accuracy", "multilabel", "does not fit --task multilabel; it takes auc, log_loss"),
        ("--metric auc", "tests.support.user_code.majority:Majority", "it takes module:callable"),
        ("--metric acuracy", "classification", "--metric acuracy: unknown name; did you mean 'accuracy'"),
        ("--metric auc,,mae", "classification", "a name is missing"),
        ("--metric topk:n=3", "classification", "no number 'n'"),
        ("--metric nowhere_at_all:f", "classification", "no module"),
        (f"--metric {OWN}:nothing", "classification", "nothing"),
        (f"--metric {OWN}:OwnAccuracy", "classification", "evaluations is called accuracy already"),
        (f"--metric {OWN}:regret,{OWN}:regret", "classification", "is called regret already"),
    ],
)
def test_what_does_not_fit_is_refused(flags: str, task: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chosen(flags, task)


def test_what_the_task_has_anyway_is_there_once() -> None:
    assert len(chosen("--metric accuracy,auc").metrics) == 2
    assert [metric_selection.names_of(each) for each in chosen("--metric auc,macro_f1").metrics[1:]] == [
        ("auc",),
        ("macro_f1",),
    ]


def test_perplexity_of_a_language_model_is_there_once() -> None:
    found = chosen("--metric perplexity --score perplexity", "lm")
    assert [metric_selection.names_of(each) for each in found.metrics] == [("perplexity", "bits_per_byte")]
    assert found.score == ("perplexity", True)


@pytest.mark.parametrize(
    ("flags", "task", "names"),
    [
        ("", "lm", {"perplexity", "bits_per_byte"}),
        ("--metric perplexity", "lm", {"bits_per_byte"}),
        ("--metric perplexity,perplexity", "lm", {"bits_per_byte"}),
        ("--metric auc,topk:k=2", "classification", {"accuracy", "top5_accuracy", "ece"}),
        ("--metric macro_f1,accuracy", "classification", {"top5_accuracy", "ece"}),
    ],
)
def test_the_console_leaves_out_what_nobody_asked_for(flags: str, task: str, names: set[str]) -> None:
    assert metric_selection.names_beside(task_of(flags, task)) == names


def test_a_number_asked_for_twice_is_there_once() -> None:
    assert len(chosen("--metric auc,auc,topk:k=5").metrics) == 2


OUTPUTS = [[[0.0, 1, 0], [3, 0, 0]], [[0.0, 0, 1]]]
LABELS = [[1, 2], [2]]


def test_a_function_gets_all_samples_in_their_order() -> None:
    found = numbers(chosen(f"--metric {OWN}:regret,{OWN}:several,{OWN}:Counting"), OUTPUTS, LABELS)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["regret"] == 3.0 and (found["best"], found["worst"]) == (3.0, -3.0)
    assert found["samples"] == 3


def test_a_function_gets_arrays_of_their_types() -> None:
    found = chosen(f"--metric {OWN}:types").metrics[-1]
    assert numbers(MetricSelection([found], Score("loss")), OUTPUTS, LABELS) == {"float32 float32": 1.0}


@pytest.mark.parametrize("name", ["failing", "FailingState"])
def test_what_fails_in_the_users_metric_names_its_flag(name: str) -> None:
    with pytest.raises(ZeroDivisionError) as failed:
        numbers(chosen(f"--metric {OWN}:{name}"), OUTPUTS, LABELS)
    assert user_message(failed.value) == f"--metric {OWN}:{name}: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("name", ["words", "nested"])
def test_what_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--metric {OWN}:{name}: gave (str|dict); give a number, or a dict"):
        numbers(chosen(f"--metric {OWN}:{name}"), OUTPUTS, LABELS)


def test_micro_batches_of_other_shapes_are_refused() -> None:
    with pytest.raises(
        UsageError, match="other shapes here than there; give an object with state and finish"
    ):
        numbers(
            MetricSelection(chosen(f"--metric {OWN}:regret").metrics[1:], Score("loss")),
            [[[0, 1]], [[0, 1, 2]]],
            [[0], [0]],
        )


def test_a_score_that_is_not_there_or_no_number() -> None:
    assert metric_selection.value_of(Score("auc"), {"val_loss": 1.0, "val_auc": 0.5}) == 0.5
    with pytest.raises(UsageError, match="--score best: the evaluation gave loss, auc; give one"):
        metric_selection.value_of(Score("best"), {"val_loss": 1.0, "val_auc": 0.5, "num_samples": 2})
    with pytest.raises(UsageError, match="--score auc: is no number over the samples of --val"):
        metric_selection.value_of(Score("auc"), {"val_auc": float("nan")})


def test_a_metric_may_have_several_numbers_between_commas() -> None:
    specs = metrics.parse("auc,ndcg:by=shop user,k=3, recall_at:k=5 ,topk")
    assert [tuple(spec) for spec in specs] == [
        ("auc", {}),
        ("ndcg", {"k": 3, "by": "shop user"}),
        ("recall_at", {"k": 5, "by": ""}),
        ("topk", {"k": 5}),
    ]
    for text, words in (
        ("auc,k=3", "k=3: unknown name"),
        ("auc:k=3", "no number 'k'"),
        ("ndcg:k=3,k=4", "k is given twice"),
        ("topk:k=3,by=user", "no number 'by'"),
    ):
        with pytest.raises(UsageError, match=words):
            metrics.parse(text)
