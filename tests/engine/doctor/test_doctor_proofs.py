"""Slow runs, large ones and bad learners, made for it: doctor says what is wrong, and fit then does as it says."""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ROOT
from tests.support.data.slow_pictures import SECONDS
from tests.support.processes.peak_memory import peak
from tests.tasks.data import stripes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = (
    *("--model", "tests.support.nets.training_steps:quick_net", "--image-size", "16", "--val-resize", "16"),
    *("--batch-size", "16"),
)


def doctor(*flags: object) -> Any:
    line = [sys.executable, "-m", "mxtrain.doctor", "--json", *map(str, flags)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fit(out: Path, *flags: object) -> tuple[list[dict[str, Any]], float]:
    """Return the records of a run and the most memory that it took, in MiB."""
    line = [sys.executable, "-m", "mxtrain.fit", "--out", str(out), "--log", "none", *map(str, flags)]
    taken = peak(line, cwd=ROOT)
    records = [json.loads(each) for each in (out / "metrics.jsonl").read_text().splitlines()]
    return records, taken


def speed(records: list[dict[str, Any]]) -> float:
    """Return the images a second of the later steps."""
    return statistics.median(
        each["images_per_second"] for each in records if each["kind"] == "train" and each["step"] > 4
    )


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stripes")
    stripes.write(made, 128, 16)
    return made / "train.rec"


# tests/unit/doctor/run/test_bottlenecks.py has the arithmetic of both
def test_a_run_that_waits_for_its_data_is_told_so_and_the_advice_makes_fit_faster(
    train: Path, tmp_path: Path
) -> None:
    run = (
        "--train",
        train,
        *SMALL,
        "--augment",
        "tests.support.data.slow_pictures:slow",
        "--loader-workers",
        "1",
    )
    found = doctor(*run, "--only", "data,compute", "--seconds", "20")
    data, compute = found["data"]["as_given"]["median"], found["compute"]["rate"]["median"]
    assert 0.6 / SECONDS < data <= 1.02 / SECONDS, "one picture at a time"
    assert compute > 2 * data and found["compute"]["waiting"] > 0.5
    assert found["bound"]["part"] == "data"
    (advice,) = found["advice"]
    before, _ = fit(tmp_path / "before", *run, "--max-steps", "10")
    after, _ = fit(tmp_path / "after", *run, *shlex.split(advice["flags"]), "--max-steps", "14")
    assert advice["factor"] > 1.5 and speed(after) > 1.4 * speed(before)


def test_a_run_that_computes_for_long_is_not_told_to_load_faster(train: Path) -> None:
    run = ("--train", train, *SMALL, "--augment", "none", "--loss", "tests.support.losses.slow_loss:loss")
    found = doctor(*run, "--only", "data,compute", "--seconds", "20")
    assert found["bound"]["part"] == "compute" and found["compute"]["waiting"] < 0.3
    assert not [each for each in found["advice"] if "--loader" in each["flags"] or "--cache" in each["flags"]]


def test_the_largest_micro_batch_trains_within_the_limit_and_twice_as_much_does_not(tmp_path: Path) -> None:
    stripes.write(tmp_path, 1024, 16)
    run = (
        "--train",
        tmp_path / "train.rec",
        "--model",
        "small_cnn",
        "--image-size",
        "64",
        "--val-resize",
        "64",
    )
    run = (*run, "--augment", "none", "--batch-size", "512")
    limit = 500
    found = doctor(*run, "--only", "micro-batch", "--memory", f"{limit}M", "--seconds", "15")["micro_batch"]
    largest = found["largest"]
    assert 8 <= largest < 512
    _, taken = fit(
        tmp_path / "fits", *run, "--val", tmp_path / "val.rec", "--micro-batch", largest, "--max-steps", "2"
    )
    assert taken <= limit
    _, taken = fit(tmp_path / "not", *run, "--micro-batch", 2 * largest, "--max-steps", "2")
    assert taken > limit


def test_the_suggested_rate_learns_the_demo_and_is_about_the_same_for_other_seeds(tmp_path: Path) -> None:
    steps = (
        ("examples/digits.py", tmp_path / "images"),
        ("-m", "tools.im2rec_wrapper", "pack", tmp_path / "images", tmp_path / "rec", "--split", "0.8"),
    )
    for step in steps:
        subprocess.run(
            [sys.executable, *map(str, step)], cwd=ROOT, check=True, capture_output=True, timeout=200
        )
    run = ("--config", "examples/digits.yaml", "--train", tmp_path / "rec" / "train.rec", "--devices", "cpu")
    val = ("--val", tmp_path / "rec" / "val.rec")
    for seeds, optimizer in (
        ((0, 0, 1, 2), ("--optimizer", "adamw")),
        ((0, 1), ("--optimizer", "sgd", "--weight-decay", "1e-4")),
    ):
        found = [doctor(*run, *optimizer, "--only", "rate", "--seed", seed)["rate"] for seed in seeds]
        rates = [each["choice"]["rate"] for each in found]
        assert max(rates) < 3 * min(rates)
        assert len(seeds) == 2 or found[0]["losses"] == found[1]["losses"], "to the bit"
        records, _ = fit(tmp_path / optimizer[1], *run, *val, *optimizer, "--lr", rates[0])
        assert max(each["val_accuracy"] for each in records if each["kind"] == "eval") > 0.985
