"""The weight of a sample: what is learnt with it, from arrays, tables, records and pictures, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.evaluate import evaluate
from mxtrain.fit import fit
from mxtrain.tasks import registry
from tests.support.data.pack_command import in_this_process
from tests.support.processes import warm_start
from tests.support.runs import assert_same_end

RNG = np.random.default_rng(3)
NUM = 24
X = RNG.normal(0, 1, (NUM, 3)).astype(np.float32)
WEIGHTS = np.resize([1.0, 0.0, 0.3, 1.0, 2.0, 0.0], NUM)
UNCOUNTED = np.flatnonzero(WEIGHTS == 0)
TARGETS: dict[str, Any] = {
    "classes": (X[:, 0] > 0).astype(np.float32),
    "numbers": np.stack([X[:, 0] - X[:, 1], X.sum(axis=1)], axis=1),
    "labels": (X[:, :2] > 0).astype(np.float32),
}
FLAGS: dict[str, dict[str, Any]] = {
    "classes": {"class_weights": "1,3"},
    "numbers": {},
    "labels": {"loss": "binary_cross_entropy"},
}


def train(out: Path, data: Any, **flags: Any) -> Any:
    """Return the result of three epochs of two steps of several micro-batches."""
    common = {"epochs": 3, "batch_size": 12, "micro_batch": 3, "model": "mlp:hidden=4", "lr": 0.5}
    run = Run.of(out=str(out), quiet=True, **{"task": "arrays", **common, **flags})
    return fit(run, **(data if isinstance(data, dict) else {"train": data, "val": data}))


def beside(y: Any, weights: Any) -> Any:
    """Return targets with a weight as the last number of each."""
    return np.column_stack([y, weights])


def learnt(result: Any) -> list[Any]:
    found = result.net.collect_params().values()
    return [each.data().asnumpy() for each in found if each.grad_req != "null"]


def assert_same(one: Any, other: Any, tolerance: float = 0) -> None:
    for mine, theirs in zip(learnt(one), learnt(other)):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance)


ONE_FAST = [name if name == "classes" else pytest.param(name, marks=pytest.mark.slow) for name in TARGETS]


@pytest.mark.parametrize("predicted", ONE_FAST)
def test_weights_that_are_all_alike_change_no_bit(tmp_path: Path, predicted: str) -> None:
    y, flags = TARGETS[predicted], FLAGS[predicted]
    plain = train(tmp_path / "plain", (X, y), **flags)
    weighted = (X, beside(y, np.full(NUM, 4)))
    assert_same(train(tmp_path / "weighted", weighted, sample_weight="last", **flags), plain)


@pytest.mark.parametrize("predicted", ONE_FAST)
def test_what_weighs_nothing_teaches_nothing_and_is_evaluated(tmp_path: Path, predicted: str) -> None:
    y, flags = TARGETS[predicted], FLAGS[predicted]
    other = y.copy()
    other[UNCOUNTED] = y[UNCOUNTED[::-1]] if predicted == "numbers" else 1 - y[UNCOUNTED]
    data = [{"train": (X, beside(each, WEIGHTS)), "val": (X, y)} for each in (y, other)]
    true, false = (
        train(tmp_path / str(number), each, sample_weight="last", **flags) for number, each in enumerate(data)
    )
    assert_same(true, false, 1e-5 * (predicted == "numbers"))  # whose mean is that of other sums
    weighted, plain = (evaluate(true, val=each)["val_loss"] for each in ((X, beside(y, WEIGHTS)), (X, y)))
    assert weighted == plain
    counted_alike = train(tmp_path / "plain", (X, y), **flags)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(learnt(true), learnt(counted_alike)))


@pytest.mark.parametrize("predicted", ONE_FAST)
def test_the_loss_is_the_weighted_mean(tmp_path: Path, predicted: str) -> None:
    y, flags = TARGETS[predicted], {**FLAGS[predicted], "batch_size": NUM, "epochs": 1, "micro_batch": NUM}
    halves = [WEIGHTS * (np.arange(NUM) % 2 == half) for half in (0, 1)]
    losses, counts = [], []
    for number, weights in enumerate([*halves, WEIGHTS]):
        result = train(tmp_path / str(number), (X, beside(y, weights)), sample_weight="last", **flags)
        losses.append(result.history[0]["loss"])
        classes = np.where(y == 1, 3, 1) if predicted == "classes" else 1
        counts.append((weights * classes).sum())
    assert losses[2] == pytest.approx((losses[0] * counts[0] + losses[1] * counts[1]) / counts[2], rel=1e-5)
    assert losses[2] != pytest.approx((losses[0] + losses[1]) / 2, rel=1e-3)


def write_table(path: Path, y: Any, weights: Any) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "importance", "b", "c", "y"])
        rows.writerows([x[0], weight, x[1], x[2], each] for x, weight, each in zip(X.tolist(), weights, y))


def test_tables_and_what_is_packed_of_them_learn_as_arrays_do(tmp_path: Path) -> None:
    names = np.where(TARGETS["classes"] == 1, "yes", "no")
    write_table(tmp_path / "t.csv", names, WEIGHTS)
    (tmp_path / "v.csv").write_text("a,b,c,y\n1,2,3,yes\n3,2,1,no\n")
    options = ["--sample-weight", "importance", "--no-shuffle"]
    packed = in_this_process("pack", tmp_path / "t.csv", tmp_path / "t", *options)
    assert not packed.returncode, packed.stderr
    val = str(tmp_path / "v.csv")
    of_table = train(
        tmp_path / "a", {"train": str(tmp_path / "t.csv"), "val": val}, sample_weight="importance"
    )
    of_records = train(tmp_path / "b", {"train": str(tmp_path / "t" / "data.rec"), "val": val})
    of_memory = train(tmp_path / "c", (X, beside(TARGETS["classes"], WEIGHTS)), sample_weight="last")
    assert_same(of_table, of_records)
    assert_same(of_table, of_memory)
    assert np.isfinite(evaluate(of_records, val=val)["val_loss"])


def test_pictures_with_numbers_take_the_name_of_their_class_list(tmp_path: Path) -> None:
    lines = []
    for number in range(NUM):
        grey = np.full((8, 8, 3), 10 * number, np.uint8)
        cv2.imwrite(str(tmp_path / f"{number}.png"), grey)
        lines.append(f"{number}.png,{number / NUM},{WEIGHTS[number]}")
    (tmp_path / "list.csv").write_text("image,brightness,importance\n" + "\n".join(lines) + "\n")
    packed = in_this_process("pack", tmp_path / "list.csv", tmp_path / "p", "--multi-label", "--no-shuffle")
    assert not packed.returncode, packed.stderr
    flags = {
        "task": "regression",
        "model": "small_cnn",
        "image_size": 8,
        "sample_weight": "importance",
        "lr": 0.01,
    }
    data = {"train": str(tmp_path / "p" / "data.rec"), "val": str(tmp_path / "p" / "data.rec")}
    result = train(tmp_path / "out", data, **flags)
    assert len(learnt(result)[-1]) == 1  # the bias of the last layer: the weight is not predicted
    assert result.history[-1]["val_loss"] > 0


def test_streams_have_weights_too(tmp_path: Path) -> None:
    rows = beside(TARGETS["classes"], WEIGHTS)

    def forever() -> Any:
        while True:
            yield from zip(X, rows)

    data = {"train": forever, "val": (X, TARGETS["classes"])}
    flags = {"sample_weight": "last", "epoch_steps": 2, "num_classes": 2, "task": "arrays"}
    result = train(tmp_path, data, **flags)
    assert np.isfinite(result.history[-1]["val_loss"])


@pytest.mark.parametrize(
    ("y", "flags", "words"),
    [
        (TARGETS["classes"], {}, "has one number a label; a weight is one more number"),
        (beside(TARGETS["classes"], -WEIGHTS), {}, "sample 0 has the weight -1"),
        (beside(TARGETS["classes"], WEIGHTS * np.nan), {}, "sample 0 has the weight nan"),
        (beside(TARGETS["classes"], 0 * WEIGHTS), {}, "no sample counts"),
        (beside(TARGETS["classes"], WEIGHTS), {"sample_weight": "w"}, "none of that name"),
        (beside(TARGETS["classes"], WEIGHTS), {"sampling": "balanced"}, "--sampling balanced draws"),
    ],
)
def test_weights_that_make_no_sense(tmp_path: Path, y: Any, flags: dict[str, Any], words: str) -> None:
    with pytest.raises((DataError, UsageError)) as refused:
        train(tmp_path, (X, y), **{"sample_weight": "last", **flags})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--sample-weight y", "is to be predicted"),
        ("--sample-weight importence", "has no column importence; did you mean 'importance'?"),
        ("--sample-weight importance --inputs a,importance", "importance says how much a sample counts"),
        ("--sample-weight word", "cannot say how much samples count"),
    ],
)
def test_columns_that_are_no_weights(tmp_path: Path, flags: str, words: str) -> None:
    (tmp_path / "t.csv").write_text("a,importance,word,y\n1,2,x,0.5\n3,4,z,1.5\n")
    result = in_this_process("pack", tmp_path / "t.csv", tmp_path / "t", *flags.split())
    assert result.returncode in (2, 3) and words in result.stderr, result.stderr


def test_a_row_without_a_weight_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,w,y\n1,2,0.5\n3,,1.5\n")
    result = in_this_process("pack", tmp_path / "t.csv", tmp_path / "t", "--sample-weight", "w")
    assert result.returncode == 3 and "t.csv:3" in result.stderr, result.stderr
    assert "its weight, w, is missing" in result.stderr


def test_other_tasks_have_no_weights() -> None:
    with pytest.raises(
        UsageError, match=r"--sample-weight goes with --task .*regression or arrays or .*, not with"
    ):
        registry.check_flags(Run.of(sample_weight="last"))


@pytest.mark.slow  # test_task_step.py has sums of any weights
@pytest.mark.timeout(200)
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_learn_it_to_the_bit(tmp_path: Path, workers: int) -> None:
    write_table(tmp_path / "t.csv", TARGETS["numbers"][:, 0], WEIGHTS + 0.1)
    length = "--epochs 4 --batch-size 12 --micro-batch 2 --lr 0.1 --sample-weight importance --quiet"
    for name, more in (("one", ""), ("all", f"--kvstore dist_sync --num-workers {workers}")):
        files = ["--train", tmp_path / "t.csv", "--val", tmp_path / "t.csv", "--out", tmp_path / name]
        flags = f"--task arrays {length} {more}".split()
        done = warm_start.run("mxtrain.fit", list(map(str, [*files, *flags])), tmp_path, timeout=90)
        assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "all", tmp_path / "one")
