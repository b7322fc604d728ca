"""The commands of docs/recommendation.md on fewer rows, and what becomes of their runs."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

from examples import recommender_data
from mxtrain.core.errors import USAGE
from mxtrain.predict import predict
from tests.support.checkout import ROOT
from tests.support.commands import Command
from tests.support.runs import assert_same_end, records, rows_of, scores_of

SMALL = ["--batch-size", "100", "--micro-batch", "25", "--threads", "1", "--log", "none"]

RANKED = ["--metric", "calibration,ndcg:k=3,by=user,recall_at:k=3,by=user"]


def commands(folder: Path) -> list[list[str]]:
    """The commands of the page behind the first one, which writes data, with files in this folder."""
    page = (ROOT / "docs" / "recommendation.md").read_text()
    blocks = re.findall(r"^```\n(.*?)^```", page, re.S | re.M)
    _, *lines = "".join(blocks[:2]).replace("\\\n", " ").splitlines()
    return [
        [str(folder / word) if re.match("(data|runs)/", word) else word for word in shlex.split(line)[2:]]
        for line in lines
    ]


def succeed(command: Command, line: list[str]) -> str:
    done = command(*line)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("clicks")
    recommender_data.write_clicks(found / "data", num_train=2000, num_val=300)
    return found


@pytest.mark.slow  # tests/tasks has runs of each task, tests/unit/data/ids what is read
@pytest.mark.timeout(200)
def test_the_commands_of_the_page(folder: Path, command: Command) -> None:
    """Learn from text, predict, pack, and learn from records: the same bits on servers as in one process."""
    of_text, of_predict, pack, of_records = commands(folder)
    succeed(command, [*of_text, *SMALL])
    rows = list(csv.DictReader(succeed(command, of_predict).splitlines()))
    assert len(rows) == 300 and all(0 < float(row["click"]) < 1 for row in rows)
    with (folder / "data" / "clicks_val.csv").open() as file:
        values = {**next(csv.DictReader(file))}
    (answer,) = predict(folder / "runs" / "clicks", [{**values, "tags": values["tags"].split("|")}])
    assert answer == {"click": pytest.approx(float(rows[0]["click"]), abs=1e-6)}
    evaluate = ["mxtrain.evaluate", str(folder / "runs" / "clicks"), "--json", *RANKED]
    evaluated = json.loads(succeed(command, evaluate))
    assert all(0 < evaluated[f"val_{name}"] < 2 for name in ("calibration", "ndcg_at_3", "recall_at_3"))
    assert scores_of(evaluated)["val_auc"] == max(
        scores_of(each)["val_auc"] for each in records(folder / "runs" / "clicks", "eval")
    )
    succeed(command, pack)
    store = of_records.index("--kvstore")
    alone = [*of_records[:store], *of_records[store + 6 :]]
    succeed(command, [*of_records, *SMALL, *RANKED, "--start-timeout", "60"])
    succeed(command, [*alone, *SMALL, *RANKED, "--out", str(folder / "runs" / "alone")])
    assert_same(folder / "runs" / "packed", folder / "runs" / "alone")


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_negatives_are_the_same_on_workers_and_after_a_resume(tmp_path: Path, command: Command) -> None:
    likes = tmp_path / "likes.csv"
    pairs = [
        (user, item) for user in range(60) for item in range(40) if (user * 7 + item * 13) % 5 == user % 2
    ]
    likes.write_text("user,item,kind,liked\n" + "".join(f"u{u},{i},k{i % 5},1\n" for u, i in pairs))
    columns = ["--target", "liked", "--categories", "user,item,kind"]
    packed = ["tools.im2rec_wrapper", "pack", str(likes), str(tmp_path / "rec"), "--from", "ids", *columns]
    succeed(command, packed)
    fit = ["mxtrain.fit", "--task", "recommendation", *columns, "--val", str(likes), *SMALL]
    fit += ["--negatives", "3:user=user,item=item/kind,val=4", "--optimizer", "adam", "--lr", "0.01"]
    fit += ["--schedule", "constant"]
    of_text = ["--train", str(likes)]
    of_records = ["--train", str(tmp_path / "rec" / "data.rec")]
    workers = ["--kvstore", "dist_sync", "--update", "servers", "--num-workers", "2"]
    runs = {
        "text": [*of_text, "--epochs", "3"],
        "records": [*of_records, "--epochs", "3"],
        "workers": [*of_records, "--epochs", "3", *workers],
    }
    for name, flags in runs.items():
        succeed(command, [*fit, *flags, "--out", str(tmp_path / name)])
    resumed = [*fit, *of_text, "--out", str(tmp_path / "resumed")]
    for steps in ("30", "60"):
        succeed(command, [*resumed, "--epochs", "3", "--max-steps", steps])
    for name, expected in (("workers", "records"), ("resumed", "text")):
        assert rows_of(tmp_path / name) == rows_of(tmp_path / expected)
        scores = [scores_of(records(tmp_path / each, "eval")[-1]) for each in (name, expected)]
        assert scores[0] == scores[1] and scores[0]["val_auc"] > 0.5


def test_a_table_over_its_limit_ends_the_run(folder: Path, command: Command) -> None:
    of_text, *_ = commands(folder)
    done = command(*of_text, *SMALL, "--model", "deepfm:max_rows=100", "--out", str(folder / "runs" / "few"))
    assert done.returncode == USAGE
    assert done.stderr.splitlines()[-1].startswith("mxtrain.fit: table rows: ")
    assert "more than its limit of 100 on a server; raise max_rows" in done.stderr


def assert_same(out: Path, alone: Path) -> None:
    assert_same_end(out, alone)
    found = rows_of(out)
    assert found == rows_of(alone) and len(found) > 1000
