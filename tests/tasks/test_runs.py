"""What every task is promised in one process: a run that is killed, mapped or looked at is the same run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.amp import ALL_NARROW, needs_bf16
from tests.support.runs import assert_same_end, newest, records
from tests.tasks.given import Given

NARROW = f"--amp bf16 --amp-table {ALL_NARROW}"


def losses(out: Path) -> list[float]:
    return [each["loss"] for each in records(out) if each["kind"] == "train"]


def test_a_killed_run_goes_on_to_the_bit(given: Given, undisturbed: Path, tmp_path: Path) -> None:
    flags = "--checkpoint-steps 4"
    given.kill_at(9, tmp_path, flags)
    assert newest(tmp_path).name in ("step-00000006", "step-00000008")  # which may not be written yet
    given.fit(tmp_path, flags)
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.parametrize(
    "mapping",
    [
        "--devices cpu:0,1,2",
        pytest.param("--devices cpu:0,1 --accumulate 2 --loader processes", marks=pytest.mark.slow),
    ],  # three devices hold it in small
)
def test_every_mapping_learns_it_to_the_bit(
    mapping: str, given: Given, undisturbed: Path, tmp_path: Path
) -> None:
    given.fit(tmp_path, mapping)
    assert_same_end(tmp_path, undisturbed)


def test_what_was_trained_is_evaluated_and_used(given: Given, undisturbed: Path) -> None:
    *_, last = [each for each in records(undisturbed) if each["kind"] == "eval"]
    judged = given.command("mxtrain.evaluate", "--run", undisturbed, "--checkpoint", "latest", "--json")
    assert judged.returncode == 0, judged.stderr
    found = json.loads(judged.stdout)
    assert {"val_loss", "num_samples"} < set(found)
    assert found == {name: last[name] for name in found}
    if given.case.predict:
        arguments = [each.format(folder=given.folder) for each in given.case.predict]
        told = given.command("mxtrain.predict", "--run", undisturbed, *arguments)
        assert told.returncode == 0, told.stderr
        assert told.stdout.strip()


def test_a_dry_run_tells_and_writes_nothing(given: Given, tmp_path: Path) -> None:
    done = given.command("mxtrain.fit", *given.line(tmp_path / "run", "--dry-run"))
    assert done.returncode == 0, done.stderr
    assert f"{given.folder / 'train.rec'}: 96 samples" in done.stdout and "parameters" in done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.slow  # test_mappings has classification's
@needs_bf16
def test_bfloat16_trains_to_the_same_bits_on_two_devices(given: Given, tmp_path: Path) -> None:
    for name, devices in (("one", "cpu"), ("two", "cpu:0,1")):
        given.fit(tmp_path / name, f"{NARROW} --devices {devices}")
    assert_same_end(tmp_path / "two", tmp_path / "one")
    given.fit(tmp_path / "wide")
    narrow, wide = (losses(tmp_path / name) for name in ("one", "wide"))
    assert (narrow != wide) == given.case.has_narrow
    np.testing.assert_allclose(narrow, wide, rtol=0.2)


@pytest.mark.slow  # tests/e2e/test_overfit.py has classification's
def test_a_few_batches_are_learnt_by_heart(given: Given, tmp_path: Path) -> None:
    given.fit(tmp_path, f"--overfit 2 --epochs 90 {given.case.overfit}")
    found = losses(tmp_path)
    assert np.mean(found[-4:]) < 0.5 * np.mean(found[:2])
    assert records(tmp_path)[-1]["num_samples"] == 32
