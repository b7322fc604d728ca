"""The task of recommendation: what it finds in data, what it refuses, and what it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, Stop, UsageError
from mxtrain.tasks import registry
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.recommendation import Recommendation
from mxtrain.train.open_data import open_source
from tests.support.data.pack_command import in_this_process

TEXT = "click,user,item,age,tags,w\n1,u1,7,30,a|b,2\n0,u2,8,20,,0.5\n0,u1,9,40,c,1\n1,u3,7,25,a,1\n"
FLAGS = "--categories user,item --lists tags --target click --exclude w"


def csv(folder: Path, text: str = TEXT, name: str = "a.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def task_of(train: str, flags: str = FLAGS, val: str = "") -> Recommendation:
    run = config.parse(["--task", "recommendation", "--train", train, *flags.split()])
    registry.check_flags(run)
    opened = open_source("--train", train, run)
    found = registry.of_data(run, opened, open_source("--val", val, run, opened) if val else None)
    assert isinstance(found, Recommendation)
    return found


@pytest.mark.parametrize(
    ("targets", "flags", "summary"),
    [
        (("1", "0", "0", "1"), "", "y as yes or no"),
        (("1", "-1", "0", "1"), "", "y as yes or no"),
        (("1", "0", "0", "1"), "--loss l2", "1 number to predict (y)"),
        (("5", "3", "1", "4"), "", "1 number to predict (y)"),
    ],
)
def test_what_is_learnt_is_seen_in_the_data(
    targets: tuple[str, ...], flags: str, summary: str, tmp_path: Path
) -> None:
    rows = "\n".join(f"{target},u{place}" for place, target in enumerate(targets))
    task = task_of(csv(tmp_path, f"y,user\n{rows}\n"), flags)
    assert task.summary() == f"{summary} from 1 ids"
    assert task.score.name == ("auc" if "yes" in summary else "rmse")


def test_a_few_targets_among_clicks_that_are_none_are_named(tmp_path: Path) -> None:
    def written(targets: list[str]) -> str:
        return csv(tmp_path, "y,user\n" + "".join(f"{each},u{place}\n" for place, each in enumerate(targets)))

    clicks = ["0", "1"] * 300
    with pytest.raises(
        DataError, match=r"a.csv: row 302: its y is 2, and 99.83% of the targets are 0, 1 or -1"
    ):
        task_of(written([*clicks[:300], "2", *clicks[301:]]), "")
    assert task_of(written([*clicks[:300], "2", *clicks[301:]]), "--loss l2").score.name == "rmse"
    assert task_of(written([*clicks, *["3"] * 7]), "").score.name == "rmse"  # more than one in a hundred


def test_several_labels_and_a_weight(tmp_path: Path) -> None:
    text = "like,buy,user,w\n1,0,a,2\n0,0,b,1\n"
    task = task_of(csv(tmp_path, text), "--target like,buy --sample-weight w")
    assert task.summary() == "like, buy as yes or no from 1 ids, weighted by w"
    assert task.contract().answer == (2,) and task.contract().inputs == ((1,),)
    sample = task.reader(True)(
        open_source("--val", csv(tmp_path, text), task.run, task).read(0), np.random.default_rng(0), {}
    )
    assert sample["label"].tolist() == [1, 0] and sample["sample_weight"] == 2
    assert task.shown(np.array([0.0, 30.0])) == pytest.approx({"like": 0.5, "buy": 1.0})


def test_clicks_have_metrics_of_clicks(tmp_path: Path) -> None:
    selection = metric_selection.of_task(task_of(csv(tmp_path), f"{FLAGS} --metric calibration"))
    assert [name for metric in selection.metrics for name in metric.names] == [  # type: ignore[attr-defined]
        *("auc", "log_loss", "calibration")
    ]
    assert selection.score.name == "auc"


def test_candidates_are_ranked_by_a_column(tmp_path: Path) -> None:
    task = task_of(csv(tmp_path), f"{FLAGS} --metric ndcg:k=2,by=user")
    ids = np.array([[5, 1], [6, 1], [5, 2]])
    assert task.groups("item")({"ids": ids}).tolist() == [1, 1, 2]
    (*_, metric) = metric_selection.of_task(task).metrics
    output = Answer(np.array([[0.3], [0.9], [0.5]]))
    state = metric.state(output, {"ids": ids, "label": np.array([[1], [0], [0]], np.float32)})
    # Of user 5 the item that was clicked comes second, and of user 6 none was.
    assert metric.finish([state]) == {"ndcg_at_2": pytest.approx(1 / np.log2(3))}


class Answer:
    def __init__(self, scores: Any):
        self.asnumpy = lambda: scores


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (
            "ndcg",
            r"--metric ndcg: ranks the candidates of each user; by= is no column of categories \(user, item\)",
        ),
        ("recall_at:by=usr", "--metric recall_at: .* by=usr is no column of categories; did you mean 'user'"),
        (
            "ndcg:by=age",
            r"by=age is no column of categories.*give the one whose ids are users, as in ndcg:by=user",
        ),
    ],
)
def test_candidates_of_nobody_are_refused(metric: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        metric_selection.of_task(task_of(csv(tmp_path), f"{FLAGS} --metric {metric}"))


def test_a_description_is_that_of_packed_records(tmp_path: Path) -> None:
    source = csv(tmp_path)
    done = in_this_process("pack", Path(source), tmp_path / "rec", "--from", "ids", *FLAGS.split())
    assert done.returncode == 0, done.stderr
    packed = task_of(str(tmp_path / "rec" / "data.rec"), "")
    assert packed.description == task_of(source).description


def test_predict_takes_rows_of_files_and_mappings(tmp_path: Path) -> None:
    task = task_of(csv(tmp_path))
    path = csv(tmp_path, "tags,age,item,user\na|b,30,7,u1\n", "b.csv")
    ((name, row),) = task.samples_in(path)
    assert name == f"{path}:2"
    of_file = task.inputs_of(row)
    for item in (7, 7.0, "7", np.int64(7)):
        values = {"user": "u1", "item": item, "age": 30, "tags": ["a", "b"], "more": 1}
        ((_, sample),) = task.samples_in(values)
        of_mapping = task.inputs_of(sample)
        assert of_mapping.keys() == of_file.keys() == {"ids", "numbers", "tags", "tags_lengths"}
        for field, array in of_file.items():
            np.testing.assert_array_equal(of_mapping[field], array)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"user": "u1", "item": 7, "age": 30}, "this sample: has no column called tags"),
        ({"user": ["u1", "u2"], "item": 7, "age": 30, "tags": []}, "this sample: its user is a list of ids"),
        (
            {"user": "u1", "item": 7.5, "age": 30, "tags": []},
            "this sample: its item is 7.5, and ids are whole",
        ),
        ({"user": "u1", "item": 7, "age": None, "tags": []}, "its age holds a number that is not finite"),
        ([1, 2], "a list is no sample; give a mapping of values by column"),
    ],
)
def test_predict_refuses_what_the_net_does_not_take(values: Any, words: str, tmp_path: Path) -> None:
    task = task_of(csv(tmp_path))
    with pytest.raises(DataError, match=words):
        task.inputs_of(task.samples_in(values)[0][1])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (f"{FLAGS} --model mlp", "--model mlp goes with --task arrays, not with recommendation"),
        (f"{FLAGS} --loss cross_entropy", "--loss cross_entropy goes with"),
        (f"{FLAGS} --num-classes 2", "--num-classes goes with"),
        (f"{FLAGS} --loss binary_cross_entropy --target age", "its age is 30; a label is 1"),
        ("--target click --inputs age", "no column is one of ids"),
        (f"{FLAGS} --sample-weight v", "has no column v"),
    ],
)
def test_flags_that_do_not_fit(flags: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(Stop, match=words):
        task_of(csv(tmp_path), flags)


def test_validation_data_has_to_be_alike(tmp_path: Path) -> None:
    other = csv(tmp_path, "click,user,age,tags\n1,a,3,b\n", "b.csv")
    with pytest.raises(DataError, match="has no column called item, which the net takes"):
        task_of(csv(tmp_path), val=other)
    rated = csv(tmp_path, TEXT.replace("\n1,u3", "\n4,u3"), "c.csv")
    with pytest.raises(DataError, match=r"c\.csv: row 5: its click is 4; a label is 1 \(yes\), 0 \(no\)"):
        task_of(csv(tmp_path), val=rated)


def test_samples_of_a_program_are_refused_one_by_one() -> None:
    with pytest.raises(UsageError, match="--train x: samples are not taken one by one; give columns"):
        Recommendation.record_of(0, {"user": 3, "click": 1}, "--train x")


def test_ids_are_of_this_task_alone(tmp_path: Path) -> None:
    source = csv(tmp_path)
    done = in_this_process("pack", Path(source), tmp_path / "rec", "--from", "ids", *FLAGS.split())
    assert done.returncode == 0, done.stderr
    run = config.parse(["--task", "arrays"])
    with pytest.raises(DataError, match="holds ids; give --task recommendation"):
        registry.of_data(run, open_source("--train", str(tmp_path / "rec" / "data.rec"), run), None)
    np.savez(tmp_path / "b.npz", x=np.zeros((4, 2)), y=np.arange(4))
    done = in_this_process("pack", tmp_path / "b.npz", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    with pytest.raises(DataError, match="holds no ids; give --task arrays, or pack it --from ids"):
        task_of(str(tmp_path / "b" / "data.rec"), "")
    with pytest.raises(UsageError, match="--lists goes with --task recommendation"):
        registry.check_flags(config.parse(["--task", "arrays", "--lists", "a"]))
