"""Promises of every task in one process: a run that is killed, mapped or looked at is the same run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.amp import ALL_NARROW, needs_bf16
from tests.support.runs import assert_same_end, newest, records, scores_of
from tests.tasks.given import NUM_VAL, Given

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
    assert scores_of(found) == scores_of(last)
    for sample in found["worst"]:
        assert given.folder.name in sample.pop("where")
    for kind, inside in (("worst", found["worst"]), ("classes", found.get("classes"))):
        told = records(undisturbed, kind)
        assert (told == []) == (inside is None)
        if inside is not None:
            inside = {"samples": inside} if kind == "worst" else inside
            assert inside == {name: told[-1][name] for name in inside}
    if given.case.predict:
        arguments = [each.format(folder=given.folder) for each in given.case.predict]
        is_asked = "--prompt" not in arguments
        whole = [given.folder / "val.rec", "--json"] if is_asked else []
        told = given.command("mxtrain.predict", "--run", undisturbed, *arguments, *whole)
        assert told.returncode == 0, told.stderr
        assert len(told.stdout.splitlines()) >= (1 + NUM_VAL if is_asked else 1)


@pytest.mark.slow  # tests/e2e/results/test_predict.py holds it of a class for each picture
def test_its_worst_mistakes_are_those_of_its_evaluation(given: Given, undisturbed: Path) -> None:
    *_, last = records(undisturbed, "worst")
    told = given.command("mxtrain.predict", undisturbed, "--checkpoint", "latest", "--mistakes", 32, "--json")
    assert told.returncode == 0, told.stderr
    found = [json.loads(line)["loss"] for line in told.stdout.splitlines()]
    assert found == [each["loss"] for each in last["samples"] if is_wrong(each)]
    assert f"{len(found)} mistakes among " in told.stderr or len(found) == 32


def is_wrong(sample: dict[str, Any]) -> bool:
    """Return whether an evaluation's sample is a mistake; of numbers and tokens each is one."""
    if "wrong" in sample:
        return bool(sample["wrong"])
    if "ious" in sample:
        return bool(sample["taken_for"])
    return "label_probability" not in sample or sample["label"] != sample["predicted"]


@pytest.mark.slow  # e2e/results/test_evaluate.py has two of them, unit/report/test_evaluation.py their texts
def test_what_an_evaluation_finds_is_told_in_words(given: Given, undisturbed: Path) -> None:
    told = given.command("mxtrain.evaluate", undisturbed)
    assert told.returncode == 0, told.stderr
    first, *others = told.stdout.splitlines()
    assert first.startswith(f"{given.folder / 'val.rec'}: val_loss ") and "the largest losses:" in others
    has_classes = bool(records(undisturbed, "classes"))
    heads = (["class", "samples"], ["class", "boxes"], ["class", "pixels"])
    assert any(line.split()[:2] in heads for line in others) == has_classes


OF_BOXES = ("detection", "yolo3", "center_net")
OF_A_CLASS = {"label", "predicted", "probability", "label_probability"}
OF_A_SAMPLE = {
    "classification": OF_A_CLASS,
    "sequence_classification": OF_A_CLASS,
    "vectors": OF_A_CLASS,
    "majority": set(),  # a user's task, which says nothing
    "gauge": set(),
    "multilabel": {"labels", "wrong"},
    "lm": {"tokens", "perplexity"},
    "token_classification": {"words", "wrong"},
    "regression": {"label", "predicted"},
    "recommendation": {"label", "predicted"},
    "series": {"label", "predicted"},
    **{name: {"boxes", "detections"} for name in OF_BOXES},
    "segmentation": {"pixel_accuracy", "ious", "taken_for", "answered"},
}


def test_its_evaluations_name_the_worst_samples(given: Given, undisturbed: Path) -> None:
    evaluation, *_, last = records(undisturbed, "worst")
    assert evaluation["step"] == 6 and last["step"] == 18
    samples = last["samples"]
    assert len({each["sample"] for each in samples}) == len(samples) <= 32
    if given.case.name != "lm":  # whose windows are more than its texts
        assert {each["sample"] for each in samples} == set(range(NUM_VAL))
    losses = [each["loss"] for each in samples]
    assert losses == sorted(losses, reverse=True)
    for each in samples:
        assert each.keys() == {"sample", "loss"} | OF_A_SAMPLE[given.case.name]


def test_its_evaluations_tell_of_each_class(given: Given, undisturbed: Path) -> None:
    found = records(undisturbed, "classes")
    evaluations = [each for each in records(undisturbed) if each["kind"] == "eval"]
    if given.case.name in ("lm", "majority", "regression", "series", "gauge"):
        assert found == [] and "val_ece" not in evaluations[-1]
        return
    assert [each["step"] for each in found] == [each["step"] for each in evaluations]
    if given.case.name in OF_BOXES:
        assert all(len(classes["ap"]) == 3 for classes in found), found[0].keys()
        return
    if given.case.name == "segmentation":
        assert all(len(classes["iou"]) == 4 for classes in found), found[0].keys()
        return
    for classes, evaluation in zip(found, evaluations):
        assert classes["ece"] == evaluation["val_ece"]
        support, recall = classes["support"], classes["recall"]
        least = 1 if given.case.name == "recommendation" else 2  # a label alone
        assert len(support) == len(recall) == len(classes["precision"]) >= least
        if given.case.name not in ("multilabel", "recommendation"):
            hits = sum(share * count for share, count in zip(recall, support) if count)
            assert hits / sum(support) == pytest.approx(evaluation["val_accuracy"])
            assert sum(count for *_, count in classes["confusion"]) == sum(support) - round(hits)


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


@pytest.mark.slow  # tests/e2e/fit/test_overfit.py has classification's
def test_a_few_batches_are_learnt_by_heart(given: Given, tmp_path: Path) -> None:
    given.fit(tmp_path, f"--overfit 2 --epochs 90 {given.case.overfit}")
    found = losses(tmp_path)
    assert np.mean(found[-4:]) < 0.5 * np.mean(found[:2])
    assert records(tmp_path)[-1]["num_samples"] == 32
