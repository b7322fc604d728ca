"""Data of the page: of a whole run, of earlier versions, without records, damaged, running, killed."""

from __future__ import annotations

import fcntl
import json
import time
from pathlib import Path
from typing import Any

import pytest

from mxtrain.report import history
from mxtrain.report.page import html_page, page_data
from tests.support.jobs import recorded_run

RUNS_BEFORE = Path(__file__).resolve().parents[3] / "golden" / "runs_before"


def data_of(*folders: Path) -> dict[str, Any]:
    return page_data.page_data([history.read(folder) for folder in folders])


def run_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = data_of(folder)["runs"][0]
    return found


def test_of_equals_the_newest_is_the_best_and_the_highest(tmp_path: Path) -> None:
    """Accuracies are 1 from the second evaluation on: the page names the step that the run's last line names."""
    evaluations = [
        {"kind": "eval", "step": step, "epoch": number, "val_loss": 0.5 / number, "val_accuracy": accuracy}
        for number, (step, accuracy) in enumerate([(4, 0.5), (8, 1.0), (12, 1.0)], 1)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in evaluations))
    run = run_of(tmp_path)
    assert ["best accuracy", "1", "validation, step 12"] in run["facts"]
    (line,) = next(each["lines"] for each in run["curves"] if each["name"] == "accuracy")
    assert line["summary"] == {"last": 1.0, "lowest": [0.5, 4], "highest": [1.0, 12]}


def test_a_run_with_all_records_has_every_section(tmp_path: Path) -> None:
    run = run_of(recorded_run.write(tmp_path / "a"))
    assert run["name"] == "a" and run["state"]["word"] == "ended"
    assert [curve["name"] for curve in run["curves"]] == [
        *("loss", "accuracy", "top5_accuracy", "lr", "gradient_norm", "loss_scale", "images_per_second")
    ]
    loss = run["curves"][0]["lines"]
    assert [line["name"] for line in loss] == ["training", "validation"]
    assert loss[0]["step"] == list(range(1, 201)) and loss[1]["step"] == [50, 100, 150, 200]
    assert run["axis"]["stepsPerEpoch"] == 50
    assert {event["event"] for event in run["events"]} == {
        "start",
        "stop",
        "restart",
        "checkpoint",
        "bad_record",
        "end",
    }
    assert ["best accuracy", "0.9", "validation, step 200"] in run["facts"]
    assert run["stages"]["sampled"]["step"] == [2, 5, 10, 20, 50, 100, 150, 200]
    assert list(run["layers"]["kinds"]) == ["gradients", "weights", "updates", "zero_rows"]
    assert [plot["title"] for plot in run["hosts"][0]["plots"]] == [
        *("Processor", "Memory", "Disk", "Network", "GPU", "GPU memory")
    ]
    assert run["workers"]["slowest"] == 1 and run["workers"]["slow_in"] == "compute"
    assert run["memory"]["kinds"] == ["program", "weights"] and run["memory"]["measured"] == 2e9
    assert run["memory"]["rows"]["each server"] == {"weights": 5e8}
    assert run["classes"]["names"][0] == "dial" and run["classes"]["matrix"]["of"] == 5
    recalls = [row[3] for row in run["classes"]["rows"]]
    assert recalls == sorted(recalls)
    assert run["worst"]["samples"][0]["label"] == "dial" and run["worst"]["samples"][0]["predicted"] == "fork"


def test_a_finding_comes_with_its_evidence_and_advice(tmp_path: Path) -> None:
    """The recorded run was twice in a row sure that the same samples are of another class."""
    (finding,) = run_of(recorded_run.write(tmp_path / "a"))["findings"]
    assert (
        finding["name"] == "label-noise" and finding["evidence"] and "--label-smoothing" in finding["advice"]
    )


def test_the_total_is_the_time_of_all_stages_evaluations_and_checkpoints(tmp_path: Path) -> None:
    folder = recorded_run.write(tmp_path / "a")
    total = run_of(folder)["stages"]["total"]
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert total["initialise"] == pytest.approx(1.5 + 1.1) and total["save"] == pytest.approx(0.8)
    assert total["evaluate"] == pytest.approx(6) and total["lost to restarts"] == pytest.approx(0.9)
    computing = sum(each["compute_seconds"] for each in records if each["kind"] == "train")
    assert total["compute"] == pytest.approx(computing, rel=1e-4)


def test_flags_that_differ_between_runs_are_told(tmp_path: Path) -> None:
    folders = [
        recorded_run.write(tmp_path / name / "run", steps=20, lr=lr, out=name)
        for name, lr in (("a", 0.1), ("b", 0.2))
    ]
    data = data_of(*folders)
    assert [run["name"] for run in data["runs"]] == ["a/run", "b/run"]
    assert data["differences"] == [{"flag": "lr", "values": ["0.1", "0.2"]}]


@pytest.mark.parametrize("state", ["killed", "ended"])
@pytest.mark.parametrize("name", ["adam_loss_scale", "dist_async"])
def test_a_run_of_an_earlier_version_has_its_curves(state: str, name: str) -> None:
    run = run_of(RUNS_BEFORE / state / name)
    assert run["state"]["word"] == "not running"
    assert {"loss", "lr", "images_per_second"} <= {curve["name"] for curve in run["curves"]}
    assert run["axis"]["hours"][-1] > 0
    missing = ("layers", "workers", "memory", "classes", "worst", "augmented")
    assert not any(run[name] for name in missing) and not run["hosts"] and not run["events"]
    html_page.as_json(run)


def test_a_run_without_a_record_is_empty(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("lr: 0.1\n")
    run = run_of(tmp_path)
    assert run["state"]["word"] == "empty" and run["curves"] == [] and run["facts"] == []
    assert run["config"] == [["lr", "0.1"]]


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "event", "step": 1},
        {"kind": "event", "step": 1, "event": "start", "time": "late", "text": None},
        {"kind": "eval", "step": 1, "val_loss": None},
        {"kind": "layers", "step": 1, "gradients": {"a": None, "b": "x"}, "weights": 3},
        {"kind": "epoch", "step": 1, "memory_bytes": {"worker 0": None, "each server": {"state": None}}},
        {"kind": "workers", "step": 1, "workers": [None, {"rank": 0}, {"rank": 1, "host": 5}]},
        {"kind": "system", "step": 1, "gpus": "none"},
        {"kind": "system", "step": 1, "time": 1.0, "gpus": [None, {"index": 0, "memory_bytes": None}]},
        {"kind": "classes", "step": 1, "support": [1, 2], "precision": [None, 1], "recall": [0.5]},
        {"kind": "classes", "step": 1, "support": [0, 2], "precision": [None, 1], "recall": [None, 0.5]},
        {"kind": "worst", "step": 1, "samples": [{"sample": 3}, {"sample": "x"}, 7]},
        {"kind": "epoch", "step": 1, "flops_per_second": 1.0, "peak_flops_per_second": None},
        {"kind": "train", "step": None},
        {"kind": "train", "step": 1, "loss": None, "seconds": None, "epoch": None},
    ],
)
def test_records_with_odd_values_make_a_page(tmp_path: Path, odd: dict[str, Any]) -> None:
    folder = recorded_run.write(tmp_path / "a", steps=8)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(odd) + "\nno record\n")
    run = run_of(folder)
    assert run["damaged"] in (1, 2)
    html_page.as_json(run)
    (folder / "metrics.jsonl").write_text(json.dumps(odd) + "\n")  # and alone
    html_page.as_json(run_of(folder))


def test_a_run_is_running_while_it_holds_its_folder(tmp_path: Path) -> None:
    folder = recorded_run.write(tmp_path / "a", steps=8)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join(lines[:-1]) + "\n")  # without its end
    assert run_of(folder)["state"]["word"] == "died"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run_of(folder)["state"]["word"] == "running"
    assert run_of(folder)["state"]["word"] == "died"


def test_a_run_elsewhere_is_running_while_it_writes(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    lines = [{"kind": "train", "step": 1, "epoch": 1, "loss": 1.0, "time": time.time()}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run_of(folder)["state"]["word"] == "running"


def test_a_long_run_is_a_small_page_with_its_extremes(tmp_path: Path) -> None:
    """A million steps in a browser: tests/e2e/results/test_report_page.py."""
    lines = [json.dumps({"kind": "train", "step": i, "epoch": 1, "loss": 1.0}) for i in range(1, 30_001)]
    lines[12_345] = json.dumps({"kind": "train", "step": 12_346, "epoch": 1, "loss": 77.0})
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    run = run_of(tmp_path)
    (line,) = run["curves"][0]["lines"]
    assert len(line["y"]) <= 800 and max(line["high"]) == 77 and max(line["y"]) < 77
    assert run["axis"]["steps"][-1] == 30_000 and len(html_page.as_json(run)) < 60_000


def test_of_a_thousand_classes_the_most_confused_are_in_the_matrix(tmp_path: Path) -> None:
    names = [f"class {i}" for i in range(1000)]
    run = run_of(recorded_run.write(tmp_path / "a", steps=8, classes=names))
    matrix = run["classes"]["matrix"]
    assert len(matrix["classes"]) == 30 and matrix["of"] == 1000
    assert {1, 2, 3} <= set(matrix["classes"]) and len(run["classes"]["rows"]) == 1000
    assert len(html_page.as_json(run)) < 400_000


def test_boxes_have_curves_and_a_background(tmp_path: Path) -> None:
    record = {
        **{"kind": "classes", "step": 8, "epoch": 1, "support": [4, 2, 0], "precision": [1, 0.5, None]},
        **{"recall": [0.5, 1, None], "f1": [0.6, 0.6, None], "ap": [0.4, 0.8, None], "has_background": True},
        **{"confusion": [[0, 3, 2], [3, 1, 2]], "least_score": 0.3},
        "curves": [[1.0, 0.5, 0.0], [1.0, 1.0, 0.5], [None, None, None]],
    }
    folder = recorded_run.write(tmp_path / "a", steps=8)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    classes = run_of(folder)["classes"]
    assert classes["names"][-1] == "background" and classes["matrix"]["most"][0] == [0, 3, 2]
    place = classes["matrix"]["classes"].index(3)
    assert classes["matrix"]["counts"][0][place] == 2 and classes["matrix"]["counts"][0][0] == 2
    assert [row[4] for row in classes["rows"] if row[0] < 2] == [0.4, 0.8]
    assert classes["boxes"]["mean"] == [1.0, 0.75, 0.25] and classes["boxes"]["recalls"] == [0, 0.5, 1]
    assert [each["class"] for each in classes["boxes"]["classes"]] == [0, 1] and classes["bins"] == []
