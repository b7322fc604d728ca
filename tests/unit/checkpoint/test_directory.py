"""A checkpoint is intact or absent, and the newest intact one is found."""

from __future__ import annotations

import dataclasses
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain import config
from mxtrain.checkpoint import directory, resume
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.config import batch_plan
from mxtrain.core import formats
from mxtrain.core.errors import DataError, UsageError


def write(folder: Path, step: int, **state: Any) -> Path:
    arrays = {"weight": np.full((10, 25), step, np.float32)}
    files = {"weights.params": arrays, "grid.params": {"exponents": np.full(30, -step, np.int32)}}
    return directory.write(folder, Snapshot(step, files, state))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 3, score=0.5)
    found = directory.newest(tmp_path)
    assert found == directory.Checkpoint(path, {"version": 2, "step": 3, "score": 0.5})


@pytest.mark.parametrize("name", ["weights.params", "grid.params", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_checkpoint_is_named_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    write(tmp_path, 1)
    victim = write(tmp_path, 2) / name
    data = victim.read_bytes()
    if damage == "flip":
        victim.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    elif damage == "truncate":
        victim.write_bytes(data[: len(data) // 2])
    else:
        victim.unlink()
    with caplog.at_level(logging.ERROR):  # which --quiet shows
        found = directory.newest(tmp_path)
    assert found is not None and found[1]["step"] == 1
    assert "step-00000002" in caplog.text and (name in caplog.text or name == "manifest.json")


@pytest.mark.parametrize("version", [1, 3])
def test_another_format_is_refused_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """It is not damage: an older checkpoint that could be read is not taken for it."""
    write(tmp_path, 1)
    monkeypatch.setattr(formats, "CHECKPOINT", version)
    path = write(tmp_path, 2)
    monkeypatch.undo()
    if version == 1:  # whose manifest had SHA-256 alone
        (path / "manifest.json").write_text(
            json.dumps(dict.fromkeys(["state.json", "weights.params"], "ab" * 32))
        )
    with pytest.raises(UsageError, match=f"format {version}, this mxtrain .*reads .*2; "):
        directory.newest(tmp_path)


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    for step, score in enumerate([0.1, 0.9, 0.3, 0.2, 0.4], start=1):
        write(tmp_path, step, score=score)
        directory.prune(tmp_path, keep_last=2, keep_best=1)
    assert [path.name[-1] for path in sorted(tmp_path.iterdir())] == ["2", "4", "5"]
    best = directory.best(tmp_path)
    assert best is not None and best[1]["step"] == 2


def test_the_best_may_be_the_lowest(tmp_path: Path) -> None:
    for step, score in enumerate([0.9, 0.1, 0.3, 0.2, 0.4], start=1):
        write(tmp_path, step, score=score, is_lower_better=True)
        directory.prune(tmp_path, keep_last=2, keep_best=1)
    assert [path.name[-1] for path in sorted(tmp_path.iterdir())] == ["2", "4", "5"]
    best = directory.best(tmp_path)
    assert best is not None and best[1]["step"] == 2


SCORES = st.lists(st.none() | st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=7)


@given(keep_last=st.integers(1, 5), keep_best=st.integers(0, 7), scores=SCORES)
def test_the_last_and_the_best_of_all_are_kept_whatever_the_numbers(
    keep_last: int, keep_best: int, scores: list[float | None]
) -> None:
    """As a run saves: each step without its score, and again once it has one."""
    with tempfile.TemporaryDirectory() as name:
        folder, known = Path(name), {}
        for step, score in enumerate(scores, start=1):
            for each in [None, score][: 1 + (score is not None)]:
                write(folder, step, score=each)
                directory.prune(folder, keep_last, keep_best)
                known[step] = each
                left = {int(path.name[5:]) for path in folder.iterdir()}
                ranked = sorted((of, at) for at, of in known.items() if of is not None)[::-1]
                last, best = sorted(known)[-keep_last:], [at for _, at in ranked[:keep_best]]
                assert left == {*last, *best}


def test_pruning_does_not_need_the_best(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step, score=None)
    directory.prune(tmp_path, keep_last=1, keep_best=0)
    assert [path.name[-1] for path in tmp_path.iterdir()] == ["3"]


def test_a_failed_deletion_does_not_end_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = write(tmp_path / "elsewhere", 1, score=None)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    directory.path_of(folder, 1).symlink_to(elsewhere)  # which rmtree refuses
    for step in (2, 3):
        write(folder, step, score=None)
        directory.prune(folder, keep_last=1, keep_best=0)
    assert "step-00000001: cannot be deleted (" in caplog.text
    assert [path.name for path in folder.glob("step-*")] == ["step-00000003"]
    assert directory.read_state(elsewhere)["step"] == 1


IDENTITY = InputIdentity({"class_names": ["a", "b"]}, num_samples=100)


def run(out: Path, *flags: str) -> config.Run:
    return config.parse(["--train", "t.rec", "--out", str(out), *flags])


def test_resume_finds_the_runs_own_checkpoint(tmp_path: Path) -> None:
    assert resume.find(run(tmp_path), IDENTITY) is None
    write(tmp_path / "checkpoints", 5, config=config.to_flat(run(tmp_path)), **IDENTITY.to_dict())
    other = run(tmp_path, "--epochs", "9", "--devices", "cpu:0,1", "--val", "v.rec", "--micro-batch", "32")
    found = resume.find(other, IDENTITY)
    assert found is not None and found.checkpoint.state["step"] == 5
    assert resume.find(run(tmp_path, "--resume", "never"), IDENTITY) is None


@pytest.mark.parametrize(
    ("schedule", "flags", "warned"),
    [
        ("cosine", "--epochs 90", False),
        ("cosine", "--epochs 120", True),
        ("cosine", "--epochs 120 --max-steps 180", False),
        ("multistep:at=30/60", "--epochs 120", False),
    ],
)
def test_another_length_under_a_schedule_spread_over_it_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, schedule: str, flags: str, warned: bool
) -> None:
    before = run(tmp_path, "--schedule", schedule)
    write(tmp_path / "checkpoints", 5, config=config.to_flat(before), **IDENTITY.to_dict())
    assert resume.find(run(tmp_path, "--schedule", schedule, *flags.split()), IDENTITY) is not None
    assert ("240 steps instead of 180: from step 5 on" in caplog.text) == warned
    assert len(caplog.records) == warned


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ("", False),
        ("--val a.rec", False),
        (f"--val {Path.cwd()}/a.rec", False),
        ("--val b.rec", True),
        ("--val a.rec --val-resize 40", True),
    ],
)
def test_scores_of_another_validation_set_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, flags: str, warned: bool
) -> None:
    before = run(tmp_path, "--val", "a.rec")
    write(tmp_path / "checkpoints", 5, config=config.to_flat(before), **IDENTITY.to_dict())
    assert resume.find(run(tmp_path, *flags.split()), IDENTITY) is not None
    assert ("scores up to step 5 are of --val a.rec" in caplog.text) == warned
    assert len(caplog.records) == warned


@pytest.mark.parametrize(
    ("flags", "data", "words"),
    [
        (["--lr", "0.2", "--model", "small_cnn"], {}, ["--lr 0.1 -> 0.2", "--model"]),
        (["--micro-batch", "16"], {}, ["micro-batches of 32 -> 16"]),
        (["--accumulate", "4"], {}, ["micro-batches of 32 -> 16"]),
        ([], {"num_samples": 101}, ["100 -> 101 samples"]),
        ([], {"description": {"class_names": ["b", "a"]}}, ["class names"]),
    ],
)
def test_resume_refuses_another_curve(
    tmp_path: Path, flags: list[str], data: dict[str, Any], words: list[str]
) -> None:
    write(tmp_path / "checkpoints", 5, config=config.to_flat(run(tmp_path)), **IDENTITY.to_dict())
    with pytest.raises(UsageError) as refused:
        resume.find(run(tmp_path, *flags), dataclasses.replace(IDENTITY, **data))
    for word in words:
        assert word in str(refused.value)
    assert "--seed" not in str(refused.value)


def test_a_checkpoint_from_elsewhere_joins_no_other_run(tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere" / "checkpoints", tmp_path / "run"
    path = write(elsewhere, 5, config=config.to_flat(run(tmp_path / "elsewhere")), **IDENTITY.to_dict())
    wanted = run(out, "--resume", str(path))
    for step in (6, 7):  # given again, with what the first time has left, it goes on from there again
        found = resume.find(wanted, IDENTITY)
        assert found is not None and found.checkpoint.path == path
        write(out / "checkpoints", step, config=config.to_flat(wanted), **IDENTITY.to_dict())
    write(out / "checkpoints", 8, config=config.to_flat(run(out, "--seed", "1")), **IDENTITY.to_dict())
    with pytest.raises(
        UsageError, match=r"run/checkpoints/step-00000008: is another run's \(--seed 1 -> 0\)"
    ):
        resume.find(wanted, IDENTITY)


def test_a_flag_younger_than_the_checkpoint_had_its_default(tmp_path: Path) -> None:
    older = config.to_flat(run(tmp_path))
    del older["mixup"]
    write(tmp_path / "checkpoints", 5, config=older, **IDENTITY.to_dict())
    assert resume.find(run(tmp_path), IDENTITY) is not None
    with pytest.raises(UsageError, match=r"--mixup 0\.0 -> 0\.2"):
        resume.find(run(tmp_path, "--mixup", "0.2"), IDENTITY)


@pytest.mark.parametrize(
    ("saved", "micro_batch"), [("fast", "16"), (None, "16"), ("fast", "64"), (None, "64")]
)
def test_a_run_goes_on_with_the_sums_that_it_began_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, saved: str | None, micro_batch: str
) -> None:
    wanted = run(tmp_path, "--micro-batch", micro_batch)
    before = {**config.to_flat(wanted), "sums": saved}
    if saved is None:  # as versions wrote it that knew no other sums
        del before["sums"]
    write(tmp_path / "checkpoints", 5, config=before, **IDENTITY.to_dict())
    found = resume.find(wanted, IDENTITY)
    assert found is not None
    assert resume.with_saved_sums(wanted, found.checkpoint).optim.sums == "fast"
    adds_several = micro_batch == "16"
    assert len(caplog.messages) == adds_several
    assert ("was begun with --sums fast" in caplog.text) == adds_several


def test_a_run_with_exact_sums_keeps_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = config.to_flat(run(tmp_path))
    write(tmp_path / "checkpoints", 5, config=before, **IDENTITY.to_dict())
    found = resume.find(run(tmp_path), IDENTITY)
    assert found is not None and caplog.messages == []
    assert resume.with_saved_sums(run(tmp_path), found.checkpoint).optim.sums == "exact"
    assert resume.with_saved_sums(run(tmp_path), None).optim.sums == "exact"
    with pytest.raises(UsageError, match="--sums exact -> fast"):
        resume.find(run(tmp_path, "--sums", "fast"), IDENTITY)


@pytest.mark.parametrize(("told", "kept"), [({}, 32), ({"micro_batch": 16}, 16), ({"micro_batch": 20}, 20)])
def test_a_run_goes_on_with_the_micro_batch_that_it_began_with(
    tmp_path: Path, told: dict[str, int], kept: int
) -> None:
    """Where flags name none; earlier versions, which did not tell it, cut a batch of 64 into two."""
    wanted = run(tmp_path, "--batch-size", "64")
    write(tmp_path / "checkpoints", 5, config=config.to_flat(wanted), **IDENTITY.to_dict(), **told)
    found = resume.find(wanted, IDENTITY)
    assert found is not None
    assert batch_plan.of_run(resume.with_saved_sums(wanted, found.checkpoint)).micro_batch == kept
    with pytest.raises(UsageError, match=f"micro-batches of {kept} -> 8"):
        resume.find(run(tmp_path, "--batch-size", "64", "--micro-batch", "8"), IDENTITY)


def test_a_flag_that_is_unknown_here_is_named(tmp_path: Path) -> None:
    newer = {**config.to_flat(run(tmp_path)), "sharpness": 0.1}
    write(tmp_path / "checkpoints", 5, config=newer, **IDENTITY.to_dict())
    with pytest.raises(UsageError, match=r"--sharpness 0\.1 -> unknown here"):
        resume.find(run(tmp_path), IDENTITY)


def test_damaged_checkpoints_alone_are_not_a_fresh_start(tmp_path: Path) -> None:
    (write(tmp_path, 1) / "weights.params").unlink()
    with pytest.raises(DataError, match="none that can be read"):
        directory.newest(tmp_path)


@pytest.mark.parametrize("manifest", ["{}", "[]", "null", '{"state.json": "x"}'])
def test_an_empty_manifest_is_damage(tmp_path: Path, manifest: str) -> None:
    path = write(tmp_path, 1)
    (path / "manifest.json").write_text(manifest)
    with pytest.raises(DataError, match=r"not a whole checkpoint|damaged"):
        directory.read_state(path)


def test_later_checkpoints_are_set_aside(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step, score=None)
    directory.set_aside_after(tmp_path, 1)
    write(tmp_path, 2, score=None)
    directory.prune(tmp_path, keep_last=1, keep_best=0)
    found = directory.newest(tmp_path)
    assert found is not None and found[1]["step"] == 2
    assert (tmp_path / "unused-step-00000003").is_dir(), "nothing is deleted"
    for number in (2, 3):
        write(tmp_path, 3)
        directory.set_aside_after(tmp_path, 1)
        assert (tmp_path / f"unused-step-00000003-{number}").is_dir(), "nor what was set aside before"


def test_the_state_holds_no_pickle(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    assert json.loads((path / "state.json").read_text())["step"] == 1
    files = ["grid.params", "manifest.json", "state.json", "weights.params"]
    assert sorted(each.name for each in path.iterdir()) == files
