"""What is chosen for a net's graph at full length holds at every length: bfloat16, activations computed again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from mxtrain.core.errors import USAGE
from tests.support.amp import BF16, needs_bf16
from tests.support.commands import Command
from tests.support.runs import assert_same_end, newest, records
from tests.support.user_code import majority_data
from tests.tasks.cases import MAJORITY
from tests.tasks.given import NUM_TRAIN, NUM_VAL, Given

WIDE = "tests.support.user_code.majority_wide"


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Given:
    folder = tmp_path_factory.mktemp("words")
    majority_data.write_sets(folder, NUM_TRAIN, NUM_VAL)
    flags = f"--task {WIDE}:Wide --optimizer adam --lr 0.002"
    return Given(dataclasses.replace(MAJORITY, flags=flags), folder, command)


@pytest.mark.slow  # test_runs.py has one net without bfloat16 at work
@needs_bf16
def test_bfloat16_is_the_same_on_every_device(words: Given, tmp_path: Path) -> None:
    words.fit(tmp_path / "one", BF16)
    words.fit(tmp_path / "three", f"{BF16} --devices cpu:0,1,2")
    assert_same_end(tmp_path / "three", tmp_path / "one")
    assert json.loads((newest(tmp_path / "one") / "state.json").read_text())["narrow_share"] == 1


@pytest.mark.slow  # the test below holds it on one device
@pytest.mark.parametrize("amp", ["", pytest.param(BF16, marks=needs_bf16)])
def test_activations_computed_again_are_the_same_on_every_device(
    amp: str, words: Given, tmp_path: Path
) -> None:
    words.fit(tmp_path / "one", f"--remat {amp}")
    words.fit(tmp_path / "two", f"--remat --devices cpu:0,1 {amp}")
    assert_same_end(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow  # tests/e2e/fit/test_remat.py has pictures'
def test_activations_computed_again_are_those_that_were(words: Given, tmp_path: Path) -> None:
    """Without dropout, whose numbers are drawn in another order."""
    for name, flags in (("plain", ""), ("again", "--remat")):
        words.fit(tmp_path / name, f"--task {WIDE}:WithoutDropout --epochs 1 {flags}")
    assert_same_end(tmp_path / "again", tmp_path / "plain")


def test_a_net_of_several_inputs_is_not_computed_again(words: Given, tmp_path: Path) -> None:
    said = words.fit(tmp_path, f"{MAJORITY.flags} --remat", code=USAGE)
    assert (
        "--remat: tests.support.user_code.majority:Majority takes 2 arrays, and can be cut if it takes one; "
        "leave it out" in said
    )


@pytest.mark.slow  # tests/cluster/training/test_async_fit.py has pictures'
@pytest.mark.timeout(200)
def test_workers_that_do_not_wait_learn_lengths_that_vary(words: Given, tmp_path: Path) -> None:
    words.fit(
        tmp_path, f"--epochs 8 --kvstore dist_async --start-timeout 60 --num-workers 2 {MAJORITY.flags}"
    )
    evaluations = [each for each in records(tmp_path) if each["kind"] == "eval"]
    assert evaluations[-1]["val_loss"] < 0.7 * evaluations[0]["val_loss"]
