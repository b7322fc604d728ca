"""Labels of rows of a table: several are learnt and answered each for itself; mistakes about those of any column."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.fit import fit
from mxtrain.predict import command, predict
from tests.support.data.pack_command import in_this_process

FLAGS: dict[str, Any] = {
    "task": "arrays",
    "loss": "binary_cross_entropy",
    "model": "mlp:hidden=16",
    "optimizer": "adam",
    "lr": 0.03,
    "batch_size": 32,
    "micro_batch": 16,
    "threads": 1,
    "log": "none",
}
NAMES = ("round", "red", "big")


def rows(number: int = 480) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((number, 5)).astype(np.float32)
    return data, (data[:, :3] + 0.3 * data[:, 1:4] > 0).astype(np.float32)


def table(path: Path, data: Any, labels: Any) -> Path:
    head = ",".join((*"abcde", *NAMES))
    np.savetxt(path, np.hstack([data, labels]), "%.6g", ",", header=head, comments="")
    return path


def test_labels_of_a_table_are_learnt_and_answered(tmp_path: Path) -> None:
    """Half of one label is unknown, and wrong where it is told: it does not count."""
    data, right = rows()
    known = right.copy()
    known[::2, 1] = -1
    files = {
        "train": str(table(tmp_path / "a.csv", data, known)),
        "val": str(table(tmp_path / "b.csv", data, right)),
    }
    flags = {**FLAGS, **files, "target": ",".join(NAMES), "out": str(tmp_path / "run")}
    ended = fit(Run.of(**flags, epochs=6, metric="auc"))
    assert ended.best["val_mean_average_precision"] > 0.97 and ended.best["val_micro_f1"] > 0.9
    answers = predict(ended, list(data[:50]), threshold=0.5)
    found = [[name in each["present"] for name in NAMES] for each in answers]
    assert np.mean(np.array(found) == (right[:50] > 0)) > 0.9
    assert all(set(each["probabilities"]) == set(NAMES) for each in answers)


@pytest.mark.parametrize(
    ("change", "flags", "reason"),
    [
        (lambda labels: labels + 1, {}, r"has label 2 for 'round'; of several labels each is 1 \(yes\)"),
        (lambda labels: labels, {"sampling": "balanced"}, "--sampling balanced: balances one class a sample"),
        (lambda labels: labels, {"loss": "cross_entropy"}, "cross_entropy"),
    ],
)
def test_what_are_no_labels_is_refused(
    tmp_path: Path, change: Any, flags: dict[str, str], reason: str
) -> None:
    data, labels = rows(40)
    path = str(table(tmp_path / "a.csv", data, change(labels)))
    settings = {**FLAGS, "train": path, "target": ",".join(NAMES), "out": str(tmp_path / "run"), **flags}
    with pytest.raises((DataError, UsageError), match=reason):
        fit(Run.of(**settings))


def test_a_later_sample_of_a_stream_with_another_label_ends_the_run(tmp_path: Path) -> None:
    def stream() -> Iterator[tuple[Any, Any]]:
        data, labels = rows(100)
        for number in range(10_000):
            label = labels[number % 100]
            yield data[number % 100], label if number != 70 else label + 1

    with pytest.raises(
        DataError, match=r"sample 70 of the stream: its label \d is 2; of several labels each is 1"
    ):
        fit(Run.of(**{**FLAGS, "epoch_steps": 2, "epochs": 2, "out": str(tmp_path)}), train=stream)


def test_mistakes_in_a_table_of_a_run_on_records(tmp_path: Path) -> None:
    data, right = rows(64)
    (tmp_path / "a.csv").write_text(
        "a,b,kind\n" + "".join(f"{x[0]},{x[1]},{'yes' if y[0] else 'no'}\n" for x, y in zip(data, right))
    )
    assert in_this_process("pack", tmp_path / "a.csv", tmp_path / "a.rec", "--target", "kind").returncode == 0
    ended = fit(
        Run.of(
            task="arrays",
            train=str(tmp_path / "a.rec"),
            max_steps=1,
            threads=1,
            log="none",
            out=str(tmp_path / "run"),
        )
    )
    run, table_given = str(tmp_path / "run"), str(tmp_path / "a.csv")
    found = predict(ended, table_given, mistakes=64, target="kind")
    answers = predict(ended, table_given, top=1)
    wrong = [
        (each["input"], "yes" if right[number, 0] else "no")
        for number, each in enumerate(answers)
        if each["classes"][0]["class"] != ("yes" if right[number, 0] else "no")
    ]
    assert wrong and len(found) == len(wrong)
    assert {each["label"] for each in found} <= {"yes", "no"}
    with pytest.raises(UsageError, match=r"what is to be predicted\? give --target .*\(a, b, kind\)"):
        command([run, table_given, "--mistakes", "3"])
    with pytest.raises(UsageError, match="--target kind: goes with --mistakes N"):
        command([run, table_given, "--target", "kind"])
