"""Runs over a stream of arrays, which its first samples describe: killed, mapped, and another stream by then."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.core.errors import USAGE
from tests.support.commands import Command
from tests.support.runs import assert_same_end, curve, newest
from tests.support.user_code import user_streams
from tests.tasks.cases import VECTORS
from tests.tasks.given import Given

STREAMS = "tests.support.user_code.user_streams"
CLUSTER = "--kvstore dist_sync --start-timeout 60 --num-workers 2"
IN_SMALL = pytest.mark.slow  # tests/unit/tasks/test_array_streams.py holds it without a run


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Given:
    folder = tmp_path_factory.mktemp("rings")
    x, y = zip(*(user_streams.vector(number, 7) for number in range(26)))
    np.savez(folder / "val.npz", data=np.stack(x), y=np.array(y))
    flags = f"--task arrays --model mlp:hidden=16 --optimizer adam --lr 0.02 --val {folder / 'val.npz'}"
    flags += " --epoch-steps 6 --checkpoint-steps 4"
    return Given(dataclasses.replace(VECTORS, flags=flags), folder, command)


def fit(rings: Given, out: Path, stream: str = "vectors", flags: str = "", code: int = 0) -> str:
    return rings.fit(out, f"--train {STREAMS}:{stream} {flags}", code=code)


@pytest.fixture(scope="module")
def undisturbed(rings: Given, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    assert "3 classes from data 2" in fit(rings, out)
    return out


def kill_at_nine(rings: Given, out: Path, stream: str) -> None:
    rings.kill_at(9, out, f"--train {STREAMS}:{stream}")
    assert newest(out).name in ("step-00000006", "step-00000008")  # the later one may not be written yet


@pytest.mark.slow  # tests/tasks/test_streams.py kills runs of streams
def test_a_killed_run_goes_on_to_the_bit(rings: Given, undisturbed: Path, tmp_path: Path) -> None:
    kill_at_nine(rings, tmp_path, "vectors")
    assert "resuming from" in fit(rings, tmp_path)
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.slow  # tests/tasks/test_streams.py has two workers on a stream, tests/unit/tasks the look
@pytest.mark.timeout(200)
def test_two_workers_learn_it_to_the_bit(rings: Given, undisturbed: Path, tmp_path: Path) -> None:
    fit(rings, tmp_path, flags=CLUSTER)
    assert_same_end(tmp_path, undisturbed)


@IN_SMALL
def test_another_stream_goes_on_as_what_it_was(rings: Given, tmp_path: Path) -> None:
    kill_at_nine(rings, tmp_path, "other_vectors")
    before, state = curve(tmp_path), directory.read_state(newest(tmp_path))
    assert "does not begin with the samples it began with before" in fit(rings, tmp_path, "other_vectors")
    after = curve(tmp_path)
    assert [each["step"] for each in after if each["kind"] == "train"] == list(range(1, 19))
    assert after[:6] == before[:6]
    end = directory.read_state(newest(tmp_path))
    assert [end[key] for key in ("description", "training_set")] == [
        state[key] for key in ("description", "training_set")
    ]
    told = fit(rings, tmp_path, "other_vectors", "--class-weights 1,2,3 --epochs 4", code=USAGE)
    assert "--class-weights" in told


@IN_SMALL
@pytest.mark.timeout(200)
def test_workers_whose_look_differs_are_refused(rings: Given, tmp_path: Path) -> None:
    said = fit(rings, tmp_path, "vectors_of_each_worker", CLUSTER, code=USAGE)
    assert "worker-1" in said and "96 samples" in said
