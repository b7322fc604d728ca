"""The run that a command means: a run folder or a checkpoint, alone or by --run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config, evaluate, predict
from mxtrain.checkpoint import directory, selection
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.core.errors import DataError, UsageError
from mxtrain.inference import trained_run

STATE = {"config": {"model": "small_cnn"}, "description": {"class_names": ["a", "b"]}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    weights = {directory.WEIGHTS: {"arg:w": np.zeros(1, np.float32)}}
    for step in (2, 4, 6):
        score = {"score": 0.9 if step == 4 else 0.5}
        directory.write(tmp_path / "run" / "checkpoints", Snapshot(step, weights, {**score, **STATE}))
    return tmp_path / "run"


def evaluated(*words: Any) -> list[Path]:
    return trained_run.named(evaluate.parser().parse_args(list(map(str, words))))


def predicted(*words: Any) -> tuple[Path, list[Any]]:
    options = predict.parser().parse_args(list(map(str, words)))
    return trained_run.with_inputs(options, options.inputs)


def test_a_run_stands_alone_or_behind_its_flag(run: Path) -> None:
    assert evaluated(run) == evaluated("--run", run) == evaluated("--val", "v.rec", run, "--json") == [run]
    assert evaluated() == [trained_run.USUAL]
    with pytest.raises(UsageError, match=r"--run .* is the run already; leave one of them out"):
        evaluated(run, "--run", run)


def test_what_a_run_had_stays_with_another_task_in_its_place(run: Path) -> None:
    """Also what is the default of the task that it had."""
    whole = config.to_flat(config.parse(["--task", "lm", "--window", "8"]))
    found = trained_run.find_checkpoint(run, "latest", "cpu")
    found = found._replace(state={**found.state, "config": whole})
    of_own = trained_run.run_of(found, {"task": Case})
    assert of_own.model.task == f"{__name__}:Case"
    assert (of_own.model.model, of_own.model.loss) == (whole["model"], whole["loss"])
    assert of_own.data == config.from_flat(whole).data
    options = evaluate.parser().parse_args(["--val-resize", "0"])
    assert options.val_resize == 0
    resized = found._replace(state={**found.state, "config": {"model": "small_cnn", "val_resize": 300}})
    assert trained_run.run_of(resized, {"val_resize": 0}).data.val_resize == 0
    assert trained_run.run_of(resized, {"val_resize": None}).data.val_resize == 300


class Case:
    """Stands for a task of one's own."""


def test_the_first_word_before_inputs_is_the_run_if_it_is_one(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pictures = [Path("a.png"), Path("b.png")]
    checkpoint = run / "checkpoints" / "step-00000002"
    assert predicted(run, *pictures) == predicted("--run", run, *pictures) == (run, pictures)
    assert predicted(run, "--top", 1, *pictures) == predicted(run, "--json", *pictures) == (run, pictures)
    assert predicted(checkpoint, *pictures) == (checkpoint, pictures)
    assert predicted("--run", run, run) == (run, [run])
    with pytest.raises(
        UsageError, match=r"a.png: neither a run folder nor a checkpoint, and there is no runs/latest"
    ):
        predicted(*pictures)
    pictures[0].touch()
    assert predicted(*pictures) == (trained_run.USUAL, pictures)
    run.rename(tmp_path / "elsewhere")
    trained_run.USUAL.parent.mkdir()
    (tmp_path / "elsewhere").rename(trained_run.USUAL)
    assert predicted("no.png", tmp_path) == (trained_run.USUAL, [Path("no.png"), tmp_path])


def test_words_after_two_dashes_are_no_flags(run: Path) -> None:
    assert predicted("--json", "--", run, "-a.png") == (run, [Path("-a.png")])


@pytest.mark.parametrize(
    ("which", "step"),
    [(None, 4), ("best", 4), ("latest", 6), ("2", 2), ("step-00000002", 2), ("checkpoints/step-00000006", 6)],
)
def test_a_checkpoint_of_a_run(run: Path, which: str | None, step: int, monkeypatch: Any) -> None:
    monkeypatch.chdir(run)
    assert trained_run.find_checkpoint(run, which, "cpu").state["step"] == step


def test_a_checkpoint_is_named_once(run: Path) -> None:
    checkpoint = run / "checkpoints" / "step-00000002"
    assert selection.select([checkpoint]).state["step"] == 2
    with pytest.raises(UsageError, match=r"--checkpoint latest: .*step-00000002 is a checkpoint already"):
        selection.select([checkpoint], "latest")
    with pytest.raises(UsageError, match=r"--checkpoint 3: no such folder, nor in .*checkpoints; give best"):
        selection.select([run], "3")


def test_what_is_none_is_named_with_what_is_one(run: Path, tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path, "neither a run folder nor a checkpoint"),
        (tmp_path / "x", "no such folder"),
    ):
        with pytest.raises(UsageError, match=rf"{path}: {reason}; give the --out of mxtrain.fit, which has"):
            selection.select([path])
    damaged = run / "checkpoints" / "step-00000002"
    (damaged / "manifest.json").unlink()
    (damaged / "state.json").unlink()
    reason = r"not a whole checkpoint \(manifest.json: No such file or directory\); give another"
    with pytest.raises(DataError, match=rf"{damaged}: {reason}"):
        selection.select([damaged])


def test_a_run_that_has_just_begun_is_one_without_a_checkpoint(tmp_path: Path) -> None:
    for name in ("config.yaml", ".lock"):
        (tmp_path / name).touch()
    assert predicted(tmp_path, "a.png") == (tmp_path, [Path("a.png")])
    with pytest.raises(
        DataError, match=f"{tmp_path}/checkpoints: holds no whole checkpoint; let mxtrain.fit"
    ):
        selection.select([tmp_path])


def test_of_several_the_first_is_averaged_with_the_others(run: Path) -> None:
    second, fourth, sixth = sorted((run / "checkpoints").iterdir())
    for which, paths in (
        ("last:2", (sixth, fourth)),
        ("best:2", (fourth, sixth)),
        ("2, latest", (second, sixth)),
        ("4,best,step-00000004", (fourth,)),
    ):
        found = selection.select([run], which)
        assert (found.path, *found.others) == paths
        assert [each.path for each in selection.members(found)] == list(paths)
    found = selection.select([sixth, run])
    assert (found.path, *found.others) == (sixth, fourth)
    with pytest.raises(
        DataError, match=r"--checkpoint last:4: .*checkpoints holds 3 such checkpoints; give a lower"
    ):
        selection.select([run], "last:4")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"config": {"model": "small_resnet"}}, "it has --model small_resnet, and not small_cnn"),
        ({"description": {"class_names": ["b", "a"]}}, "it has other class names"),
        ({"description": {"class_names": ["a", "b"], "mean": [0.5]}}, "it has other mean"),
    ],
)
def test_other_nets_are_not_averaged(run: Path, tmp_path: Path, other: dict[str, Any], words: str) -> None:
    weights = {directory.WEIGHTS: {"arg:w": np.zeros(1, np.float32)}}
    path = directory.write(tmp_path / "other", Snapshot(2, weights, {**STATE, **other}))
    with pytest.raises(
        UsageError, match=rf"{path}: cannot be averaged with .*run.*, {words}; give checkpoints"
    ):
        selection.select([run, path])


@pytest.mark.parametrize("tokenizer", ["json:" + '{"model": 1}' * 1000, "bytes"])
def test_a_tokenizer_that_is_no_code_is_none_of_pythons(tmp_path: Path, tokenizer: str) -> None:
    """A learnt one is kept whole, longer than any name of a file; json is a module of Python's too."""
    description = {"tokenizer": tokenizer, "vocab_size": 300, "end_token": 0}
    checkpoint = directory.Checkpoint(tmp_path, {"description": description})
    task = trained_run.task_of(checkpoint, config.Run.of(task="lm", train="t.rec"))
    assert task.description == description


def test_a_tokenizer_of_pythons_own_is_refused(tmp_path: Path) -> None:
    checkpoint = directory.Checkpoint(tmp_path, {"description": {"tokenizer": "os:abort"}})
    with pytest.raises(UsageError, match="names os:abort, which is a part of Python"):
        trained_run.task_of(checkpoint, config.Run.of(task="lm", train="t.rec"))
