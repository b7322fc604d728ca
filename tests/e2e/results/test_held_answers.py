"""`--hold layers` of evaluate and predict: the whole net's answers, with two segments of it in memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mxtrain.evaluate import evaluate
from mxtrain.predict import SamplingOptions, predict
from tests.support.commands import Command
from tests.support.processes import peak_memory
from tests.support.runs import newest
from tests.tasks.data import steps

ROOT = Path(__file__).resolve().parents[3]
PICTURES = [
    "--model",
    "small_cnn",
    "--image-size",
    "16",
    "--val-resize",
    "16",
    "--threads",
    "1",
    "--max-steps",
    "3",
]


@pytest.fixture(scope="module")
def run(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("held") / "run"
    data = ["--train", digits / "train.rec", "--val", digits / "val.rec"]
    done = command("mxtrain.fit", *data, *PICTURES, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def test_answers_are_those_of_the_whole_net(run: Path, digits: Path, command: Command) -> None:
    held, whole = (evaluate(run, hold=hold, report=True) for hold in ("layers", "all"))
    scores = [{name: each[name] for name in each if name.startswith("val_")} for each in (held, whole)]
    assert len(scores[0]) > 2 and scores[0] == scores[1]
    found, expected = (predict(run, str(digits / "val.rec"), hold=hold) for hold in ("layers", "all"))
    assert len(found) > 100 and found == expected
    done = command("mxtrain.evaluate", run, "--hold", "layers", "--json")
    assert json.loads(done.stdout) == json.loads(json.dumps(held)) | {"checkpoints": [str(newest(run))]}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["evaluate", "--tta", "flip"], "--tta with --hold layers"),
        (["evaluate", "--ensemble"], "--ensemble with --hold layers"),
        (["evaluate", "--devices", "cpu:0,1"], "--hold layers with --devices cpu:0,1"),
        (["predict", "--embed"], "--embed with --hold layers"),
    ],
)
def test_what_takes_the_whole_net_is_refused(
    run: Path, flags: list[str], said: str, command: Command
) -> None:
    module, *others = flags
    done = command(f"mxtrain.{module}", "--run", run, "--hold", "layers", *others)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_large_net_is_judged_and_writes_in_a_part_of_its_memory(tmp_path: Path, command: Command) -> None:
    """A GPT of 85M: 340 MB of weights beside the 220 MB that Python and MXNet take."""
    steps.write(tmp_path, 40, 8)
    flags = ["--task", "lm", "--model", "gpt_85m", "--window", "64", "--batch-size", "1", "--max-steps", "1"]
    held = ["--hold", "layers", "--optimizer", "sgd:momentum=0"]
    data = ["--train", tmp_path / "train.rec", "--val", tmp_path / "val.rec", "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *flags, *held, *data, timeout=200)
    assert done.returncode == 0, done.stderr
    line = [sys.executable, "-m", "mxtrain.evaluate", str(tmp_path / "run"), "--hold"]
    peaks = {hold: peak_memory.peak([*line, hold], cwd=ROOT) for hold in ("layers", "all")}
    assert peaks["layers"] < peaks["all"] - 250, peaks
    sampling = SamplingOptions(max_tokens=3)
    texts = [
        predict(tmp_path / "run", prompts=["3a"], sampling=sampling, hold=hold) for hold in ("layers", "all")
    ]
    assert texts[0] == texts[1]
