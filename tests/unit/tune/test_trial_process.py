"""What the end of a trial's process means, the folder of its run, and its share of the cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.config import Run
from mxtrain.tune import trial_process
from mxtrain.tune.trial_process import Meaning, meaning_of


@pytest.mark.parametrize(
    ("code", "message", "has_stepped", "meaning"),
    [
        (0, "done: val loss 0.1", True, Meaning.DONE),
        (4, "the loss is no number", True, Meaning.DIVERGED),
        (2, "--lr and --clip-norm do not go together", False, Meaning.REFUSED),
        (2, "x.params: cannot be written (No space left on device); make room", False, Meaning.ENDS_SEARCH),
        (2, "--score auc: is no number over the samples of --val", True, Meaning.FAILED),
        (2, "the run folder has gone", True, Meaning.ENDS_SEARCH),
        (3, "train.rec: record 7 is damaged", True, Meaning.ENDS_SEARCH),
        (1, "RuntimeError", True, Meaning.AGAIN),
        (75, "run me again", True, Meaning.AGAIN),
        (143, "stopped by SIGTERM", True, Meaning.AGAIN),
        (-9, "", True, Meaning.AGAIN),
    ],
)
def test_meaning_of_exit_codes(code: int, message: str, has_stepped: bool, meaning: Meaning) -> None:
    assert meaning_of(code, message, has_stepped) is meaning


def test_a_run_with_other_flags_in_the_folder_is_set_aside(tmp_path: Path) -> None:
    folder = tmp_path / "trials" / "0000"

    def prepare(**flags: object) -> None:
        trial_process.prepare(folder, Run.of(train="t.rec", out=str(folder), **flags))

    prepare(lr=0.1)
    (folder / "metrics.jsonl").touch()
    prepare(lr=0.1, threads=3)  # as with other --jobs
    assert (folder / "metrics.jsonl").exists() and config.read(folder / "config.yaml").layout.threads == 3
    prepare(lr=0.2)
    assert not (folder / "metrics.jsonl").exists() and config.read(folder / "config.yaml").optim.lr == 0.2
    assert (tmp_path / "trials" / "0000-before-1" / "metrics.jsonl").exists()
    (folder / "config.yaml").write_text("lr: [")
    prepare(lr=0.2)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["0000", "0000-before-1", "0000-before-2"]


def test_cores_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3, 5, 7, 11})
    assert [trial_process.share(place, 2) for place in range(2)] == [[2, 3], [5, 7]]
    assert trial_process.share(0, 1) == [2, 3, 5, 7, 11]
    assert [trial_process.share(place, 7) for place in (0, 4, 5, 6)] == [[2], [11], [2], [3]]
