"""Mixing within a step: the loss is that of both labels, whichever device computes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.data.loading.loader import Batch, Request
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import step
from tests.support.jobs import loop_run
from tests.support.jobs.loop_run import CLASSES, SIZE, records_of, run_of
from tests.support.nets.training_steps import context_of_run

BOTH = "--mixup 0.4 --cutmix 1"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loop_run.pack(tmp_path_factory.mktemp("packed"))


def curve(packed: Path, out: Path, flags: str) -> list[tuple[float, float]]:
    """Loss and accuracy of every step so far; a second call goes on where the first ended."""
    loop_run.train(run_of(packed, out, flags))
    return [(record["loss"], record["accuracy"]) for record in records_of(out) if record["kind"] == "train"]


@pytest.fixture(scope="module")
def plain(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, float]]:
    return curve(packed, tmp_path_factory.mktemp("plain"), "")


def test_nothing_but_the_flags_moves_a_mixed_curve(packed: Path, plain: Any, tmp_path: Path) -> None:
    """40 samples in steps of 16 and 8: short steps too. Repeating and loading in other ways keeps every bit."""
    first = curve(packed, tmp_path / "first", BOTH)
    assert len(first) == 6 and first != plain
    assert curve(packed, tmp_path / "again", BOTH + " --loader-workers 3") == first
    assert curve(packed, tmp_path / "other", BOTH + " --loader processes --loader-workers 1") == first
    np.testing.assert_allclose(curve(packed, tmp_path / "two", BOTH + " --devices cpu:0,1"), first, rtol=1e-5)


def test_a_resumed_run_mixes_as_an_uninterrupted_one(packed: Path, tmp_path: Path) -> None:
    constant = BOTH + " --schedule constant"
    whole = curve(packed, tmp_path / "whole", constant)
    assert curve(packed, tmp_path / "parts", constant + " --max-steps 4") == whole[:4]
    assert curve(packed, tmp_path / "parts", constant) == whole


def test_alphas_of_zero_are_no_mixing_to_the_bit(packed: Path, plain: Any, tmp_path: Path) -> None:
    assert curve(packed, tmp_path / "zeros", "--mixup 0 --cutmix 0") == plain


@pytest.mark.parametrize("alphas", ["--mixup 1", "--cutmix 1", BOTH])
def test_the_loss_is_that_of_both_labels_by_their_shares(packed: Path, tmp_path: Path, alphas: str) -> None:
    """Against the cross entropy with soft labels, in numpy; accuracy is that of the label on the larger share."""
    context = context_of_run(run_of(packed, tmp_path, f"{alphas} --model {__name__}:linear"), CLASSES)
    rng = np.random.default_rng(1)
    data = rng.standard_normal((8, 3, SIZE, SIZE)).astype(np.float32)
    label = rng.integers(0, CLASSES, 8).astype(np.float32)
    mixed_data, mixed_label = data.copy(), label.copy()
    found = context.task.mix(mixed_data, mixed_label, 7, 0)
    soft = np.zeros((8, CLASSES))
    np.add.at(soft, (np.arange(8), mixed_label.astype(int)), 1 - found.fraction)
    np.add.at(soft, (np.arange(8), found.label.astype(int)), found.fraction)
    np.testing.assert_allclose(soft.sum(axis=1), 1, rtol=1e-6)

    output = context.net(mx.nd.array(mixed_data)).asnumpy().astype(np.float64)
    log_softmax = output - np.log(np.exp(output).sum(axis=1, keepdims=True))
    batch = Batch(Request(7, 0, 0, np.arange(8)), {"data": data, "label": label}, None)
    result = step.train_step(context, [batch], lambda batch: None, 7, 0.0, precision.LossScale())
    assert result.loss == pytest.approx(-(soft * log_softmax).sum() / 8, rel=1e-5)
    assert result.means["accuracy"] == np.mean(output.argmax(axis=1) == mixed_label)


def linear(num_classes: int) -> Any:
    return mx.gluon.nn.Dense(num_classes)
