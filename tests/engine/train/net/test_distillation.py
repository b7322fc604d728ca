"""Distillation: the loss agrees with NumPy, and the teacher does not change."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint import directory, initial_weights
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.core.errors import UsageError
from mxtrain.inference import trained_run
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import state, step
from mxtrain.train.context import TrainContext
from mxtrain.train.net import build_net
from tests.support.breadth import slow_cases
from tests.support.losses.reference_losses import log_softmax
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    QUICK_RESNET,
    SIZE,
    arrays,
    batches,
    context_of_run,
    train,
)

NAMES = ["north", "east", "south", "west"]
SHARE, TEMPERATURE = 0.7, 3.0


IDENTITY = InputIdentity({"class_names": NAMES}, num_samples=48)


def run_of(flags: str, out: Path) -> config.Run:
    line = f"--train t.rec --image-size {SIZE} --model {QUICK_RESNET} --out {out} {FLAGS} {flags}"
    return config.parse(line.split())


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a net that has trained a little, on other seeds."""
    out = tmp_path_factory.mktemp("teacher")
    run = run_of("--seed 5 --model small_cnn", out)
    context = context_of_run(run, CLASSES, IDENTITY)
    train(context, 3)
    progress = state.TrainState(3, precision.LossScale(), score=0.5)
    snapshot = state.snapshot(context, progress)
    directory.write(out / "checkpoints", snapshot)
    return out


def student_of(teacher: Path, flags: str = "") -> TrainContext:
    distil = f"--teacher {teacher} --distill-weight {SHARE} --distill-temperature {TEMPERATURE}"
    return context_of_run(run_of(f"{distil} {flags}", teacher / "student"), CLASSES)


def by_hand(context: TrainContext, batch: Any) -> np.ndarray:
    """The losses of a micro-batch of step 0, from the outputs of both nets."""
    mixed_in = context.task.mix(batch.arrays["data"], batch.arrays["label"], 0, 0)
    with mx.autograd.train_mode():
        output = context.net(mx.nd.array(batch.arrays["data"])).asnumpy()
    taught = context.forward.teacher(mx.nd.array(batch.arrays["data"])).asnumpy()
    log_probabilities, rows = log_softmax(output), np.arange(len(batch.arrays["label"]))
    hard = -log_probabilities[rows, batch.arrays["label"].astype(int)]
    if mixed_in is not None:
        other = -log_probabilities[rows, mixed_in.label.astype(int)]
        hard = (1 - mixed_in.fraction) * hard + mixed_in.fraction * other
    own, teachers = log_softmax(output / TEMPERATURE), log_softmax(taught / TEMPERATURE)
    soft = TEMPERATURE**2 * (np.exp(teachers) * (teachers - own)).sum(axis=1)
    result: np.ndarray = (1 - SHARE) * hard + SHARE * soft
    return result


@pytest.mark.parametrize("mixing", ["--mixup 0.4 --cutmix 1", *slow_cases("", "--mixup 0.4")])
def test_the_loss_is_hintons(teacher: Path, mixing: str) -> None:
    # Where the nets are further apart, the last bits of MXNet's log_softmax, times the temperature squared, show.
    context = student_of(teacher, f"--model small_resnet --micro-batch 16 {mixing}")
    expected = by_hand(context, batches(16, 16, seed=0)[0])
    outcome = step.train_step(context, batches(16, 16, 0), lambda b: None, 0, 0.05, precision.LossScale())
    assert outcome.loss == pytest.approx(expected.mean(), rel=1e-5)


def test_the_teacher_stays_as_it_was(teacher: Path) -> None:
    context = student_of(teacher, "--devices cpu:0,1")
    named = weights.named_parameters(context.forward.teacher)
    before = {name: [array.asnumpy() for array in p.list_data()] for name, p in named.items()}
    student = arrays(context)
    train(context, 3)
    assert any(not np.array_equal(value, student[name]) for name, value in arrays(context).items())
    for name, parameter in named.items():
        assert parameter.grad_req == "null"
        for array, value in zip(parameter.list_data(), before[name]):
            np.testing.assert_array_equal(array.asnumpy(), value, err_msg=name)
    assert not {p.name for p in named.values()} & {p.name for p in context.trainer.parameters}


def test_devices_do_not_move_the_curve(teacher: Path) -> None:
    """Each step from the same weights. In as wide a net as this a last bit soon turns some ReLU on or off, which
    moves a loss by 1e-4 and more, whoever computes it: seen with the kernels of some CPUs, or another seed."""
    alone, spread = (
        student_of(teacher, f"--mixup 0.2 --momentum 0 --devices {devices}")
        for devices in ("cpu", "cpu:0,1,2")
    )
    for number in range(6):
        found, expected = (
            step.train_step(
                context, batches(16, 4, number), lambda b: None, number, 0.05, precision.LossScale()
            )
            for context in (spread, alone)
        )
        assert found.loss == pytest.approx(expected.loss, rel=1e-6)
        assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-6)
        named, moved = weights.named_parameters(spread.net), arrays(spread)
        for name, value in arrays(alone).items():
            np.testing.assert_allclose(moved[name], value, rtol=1e-5, atol=1e-7, err_msg=name)
            named[name].set_data(mx.nd.array(value))


def test_short_micro_batches_count_their_samples(teacher: Path) -> None:
    context = student_of(teacher, "--freeze *running*")  # so that a micro-batch is as its samples alone
    expected = np.concatenate([by_hand(context, batch) for batch in batches(10, 4, seed=0)])
    outcome = step.train_step(context, batches(10, 4, 0), lambda b: None, 0, 0.05, precision.LossScale())
    assert outcome.num_samples == 10
    assert outcome.loss == pytest.approx(expected.mean(), rel=1e-4)


def test_teachers_and_initial_weights_are_recognised_by_checksums(teacher: Path, tmp_path: Path) -> None:
    found = initial_weights.checkpoint_at("--teacher", str(teacher))
    by_folder, by_checkpoint = (
        initial_weights.teacher_checksum(run_of(f"--teacher {path}", tmp_path), {"class_names": NAMES})
        for path in (teacher, found.path)
    )
    assert by_folder is not None and by_folder == by_checkpoint and len(by_folder) == 64
    assert initial_weights.teacher_checksum(run_of("", tmp_path), {"class_names": NAMES}) is None
    assert initial_weights.pretrained_checksum(run_of("", tmp_path)) is None
    assert initial_weights.pretrained_checksum(run_of(f"--pretrained {teacher}", tmp_path)) == by_folder


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (NAMES[:3], "knows 4 classes, --train has 3"),
        (["north", "south", "east", "west"], "its class 1 is 'east', that of --train is 'south'"),
    ],
)
def test_a_teacher_of_other_classes_is_refused(teacher: Path, names: list[str], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        initial_weights.teacher_checksum(run_of(f"--teacher {teacher}", teacher), {"class_names": names})
    assert words in str(refused.value) and "--teacher" in str(refused.value)


def test_paths_without_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        initial_weights.checkpoint_at("--teacher", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match=r"no such file or folder; give a \.params file"):
        initial_weights.weights_file("--pretrained", str(tmp_path / "missing.params"))
    with pytest.raises(UsageError, match="neither a run folder nor a checkpoint"):
        initial_weights.checkpoint_at("--teacher", str(tmp_path))


def test_a_teacher_answers_as_predict_does(teacher: Path) -> None:
    """With norms folded into convolutions: it has other last bits than while it was trained."""
    pictures = mx.nd.array(batches(16, 16, seed=0)[0].arrays["data"])
    taught = student_of(teacher).forward.teacher(pictures).asnumpy()
    found = trained_run.find_checkpoint(teacher, "latest", "cpu")
    for joins_layers in (True, False):
        opened = trained_run.net_of(found, trained_run.run_of(found, {}), "cpu", joins_layers=joins_layers)
        with opened as (net, _):
            answers = net(pictures).asnumpy()
        np.testing.assert_allclose(answers, taught, rtol=1e-4, atol=1e-5)
        assert (answers == taught).all() == joins_layers


def test_a_net_that_the_default_init_does_not_fit(tmp_path: Path) -> None:
    """A weight of one dimension: trained well with another --init, it is used without."""
    run = run_of("--model tests.support.nets.user_net:scaled --init uniform:scale=0.5", tmp_path)
    context = context_of_run(run, CLASSES, IDENTITY)
    train(context, 2)
    progress = state.TrainState(2, precision.LossScale(), score=0.5)
    snapshot = state.snapshot(context, progress)
    directory.write(tmp_path / "checkpoints", snapshot)
    pictures = mx.nd.array(batches(16, 16, seed=0)[0].arrays["data"])
    expected = context.net(pictures).asnumpy()
    found = build_net.load_trained(initial_weights.checkpoint_at("--teacher", str(tmp_path)), [mx.cpu()])
    np.testing.assert_array_equal(found(pictures).asnumpy(), expected)
    np.testing.assert_array_equal(student_of(tmp_path).forward.teacher(pictures).asnumpy(), expected)


def test_a_run_starts_from_the_weights_of_another_run(teacher: Path) -> None:
    run = run_of(f"--model small_cnn --pretrained {teacher}", teacher / "student")
    begun = arrays(context_of_run(run, CLASSES))
    plain = arrays(context_of_run(dataclasses.replace(run, model=config.Model(model="small_cnn")), CLASSES))
    saved = mx.nd.load(str(initial_weights.weights_file("--pretrained", str(teacher))))
    for name, value in begun.items():
        np.testing.assert_array_equal(value, saved[name].asnumpy(), err_msg=name)
    assert not np.array_equal(begun["0.weight"], plain["0.weight"])
