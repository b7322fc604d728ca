"""What a task is given by its base class, and which flags it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components.tasks import TASKS
from mxtrain.config.program_objects import ProgramObjects
from mxtrain.core.errors import UsageError
from mxtrain.data.user.user_datasets import UserDataset
from mxtrain.tasks import registry
from mxtrain.tasks.task import Task, TaskPrediction
from tests.support.user_code.majority import Majority

MAJORITY = "tests.support.user_code.majority:Majority"


def task(*flags: str) -> Majority:
    run = config.parse(["--train", "t.rec", "--task", MAJORITY, "--batch-size", "4", *flags])
    found = registry.of_description(run, {"words": 10})
    assert isinstance(found, Majority)
    return found


def test_a_task_has_what_it_does_not_say_itself() -> None:
    made = task()
    assert (made.unit, made.units_per_sample) == ("sequences", 1)
    assert made.score == ("loss", True)
    arrays = {"words": np.zeros((4, 8))}
    assert made.prepare(arrays, 0, 0) is arrays


def test_a_pickled_task_leaves_the_objects_of_a_program_in_its_process() -> None:
    objects = ProgramObjects.of({"loss": lambda output, label: output})
    run = config.parse(["--task", MAJORITY])
    made = registry.of_description(run, {"words": 10}, objects)
    assert made.objects is objects
    copied = pickle.loads(pickle.dumps(made))
    assert copied == made and not copied.objects.by_place


def test_what_a_task_leaves_out_is_named() -> None:
    class Unfinished(Task):
        def contract(self) -> Any: ...

    with pytest.raises(TypeError, match=r"Unfinished .*abstract.* build_net"):
        Unfinished(config.Run(), {})  # type: ignore[abstract]


@pytest.mark.parametrize(
    "name", ["tests.support.user_code.majority:read", "tests.support.user_code.majority_data:write"]
)
def test_what_is_no_task_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--task {name}: is no task; give a class that inherits"):
        registry.class_of(config.parse(["--task", name]))


@pytest.mark.parametrize(
    "flags",
    [
        *(
            "--image-size 32",
            "--augment flip",
            "--mixup 0.2",
            "--cutmix 1",
            "--normalize device",
            "--cache ram",
        ),
        *(
            "--num-classes 3",
            "--sampling balanced",
            "--label-smoothing 0.1",
            "--teacher runs/a",
            "--val-resize 300",
        ),
        *("--model small_cnn", "--loss focal"),
    ],
)
def test_a_flag_that_a_task_does_not_heed_is_refused(flags: str) -> None:
    flag = flags.split()[0]
    run = config.parse(["--task", MAJORITY, *flags.split()])
    with pytest.raises(UsageError) as refused:
        registry.check_flags(run)
    words = str(refused.value)
    assert words.startswith(f"{flag} goes with --task classification")
    assert words.endswith(f", not with {MAJORITY}; leave it out")
    registry.check_flags(config.parse(flags.split()))
    registry.check_flags(config.parse(["--task", MAJORITY]))


class RawIds:
    """A user's data set, with a name for its own use that Gluon's have for labels."""

    _label = ("n01440764", "n01443537")

    def __len__(self) -> int:
        return len(self._label)

    def __getitem__(self, position: int) -> tuple[bytes, int]:
        return b"a", position


def test_items_of_a_users_dataset_become_records() -> None:
    dataset = UserDataset("own:data", [([1, 2], 0), (np.ones(3), 2.5)])
    assert dataset.labels().tolist() == [0, 2.5]
    assert dataset.read(0).payload == [1, 2] and dataset.read(1).payload.tolist() == [1, 1, 1]
    several = UserDataset("own:data", [(b"a", [0, 1]), (b"b", (2, 3))])
    assert several.labels().tolist() == [[0, 1], [2, 3]]
    dataset = RawIds()
    assert UserDataset("own:data", dataset).labels().tolist() == [0, 1]
    ragged = UserDataset("own:data", [(b"a", [0, 1]), (b"b", [2])])
    assert not len(ragged.labels()) and ragged.read(1).label.tolist() == [2]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ((1, 2, 3), "a tuple of 3 for sample 0; give a pair"),
        ({"x": 1}, "a dict for sample 0; give a pair"),
        (b"ab", "a bytes for sample 0; give a pair"),
        ((1, "cat"), "a str as the label of sample 0; give a number"),
        ((1, {"box": 2}), "a dict as the label of sample 0"),
        ((1, [[1, 2], [3]]), "a list as the label of sample 0"),
    ],
)
def test_an_item_that_is_no_pair_is_refused(item: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"--val own:data: gives {words}"):
        UserDataset("own:data", [item], "--val")


def batch() -> dict[str, Any]:
    words = np.ones((4, 8), np.int64)
    return {"words": words, "mask": words, "label": np.zeros(4), "weight": np.full(4, 8)}


def test_batches_of_a_data_loader_are_named_or_in_order() -> None:
    made, given = task(), batch()
    named, in_order = (
        made.of_batch(given, "--train own:loader"),
        made.of_batch(list(given.values()), "--train own:loader"),
    )
    for name, dtype in (("words", "int32"), ("mask", "float32"), ("label", "float32"), ("weight", "float32")):
        np.testing.assert_array_equal(named[name], given[name])
        np.testing.assert_array_equal(in_order[name], given[name])
        assert named[name].dtype == in_order[name].dtype == dtype
        assert not np.shares_memory(named[name], given[name])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"words": np.ones((4, 25))},
            r"gave words of shape \(4, 25\); give --batch-size 4 samples of words up to",
        ),
        ({"label": np.ones(3)}, r"gave label of shape \(3,\)"),
        ({"label": 1.0}, r"gave label of shape \(\)"),
        ({"weight": ["a"] * 4}, "gave no array of float32 for weight"),
        (
            {"other": 1},
            "gave arrays called words, mask, label, weight, other; give words, mask, label, weight",
        ),
    ],
)
def test_batches_that_do_not_fit_the_fields_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=f"--train own:loader: {words}"):
        task().of_batch({**batch(), **changed}, "--train own:loader")
    with pytest.raises(
        UsageError, match="gave a list for a batch; give 4 arrays, words, mask, label, weight"
    ):
        task().of_batch([1, 2], "--train own:loader")


class Predicting(Majority):
    """As users wrote them before there was a protocol: four methods, and nothing inherited for them."""

    def inputs_of(self, source: Any) -> dict[str, Any]:
        return {"words": source}

    def answer(self, net: Any, arrays: Any) -> Any:
        return net(arrays["words"])

    def shown(self, output: Any) -> dict[str, Any]:
        return {"vote": int(output)}

    def in_words(self, shown: Any) -> str:
        return str(shown["vote"])


def test_a_task_with_the_four_methods_predicts_whatever_it_inherits() -> None:
    made = Predicting(config.Run(), {})
    assert registry.prediction_of(made) is made
    assert made.samples_in("a") == [("a", "a")] and made.path_of("a") is None
    for name, task_of_name in TASKS.items():
        assert issubclass(task_of_name.load(), TaskPrediction) == (name != "lm")


def test_a_task_that_does_not_predict_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        UsageError, match=f"--task {MAJORITY}: does not say how it predicts; give it inputs_of"
    ):
        registry.prediction_of(task())
    model = registry.of_description(config.parse(["--task", "lm"]), {})
    with pytest.raises(UsageError, match=r"--task lm: .* give it a --prompt"):
        registry.prediction_of(model)
