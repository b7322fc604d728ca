"""Losses of numbers, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.models import losses
from mxtrain.runtime import mx

OUTPUT = np.array([[0.0, 3.0], [-0.25, 1.5], [7.0, -2.0]], np.float32)
LABEL = np.array([[0.5, 1.0], [-0.25, 1.0], [-3.0, -2.0]], np.float32)
APART = np.abs(OUTPUT - LABEL)


@pytest.mark.parametrize(
    ("text", "expected", "gradient"),
    [
        ("l1", APART, np.sign(OUTPUT - LABEL)),
        ("l2", APART**2, 2 * (OUTPUT - LABEL)),
        ("huber", np.where(APART < 1, APART**2 / 2, APART - 0.5), np.clip(OUTPUT - LABEL, -1, 1)),
        (
            "huber:delta=3",
            np.where(APART < 3, APART**2 / 2, 3 * (APART - 1.5)),
            np.clip(OUTPUT - LABEL, -3, 3),
        ),
    ],
)
def test_a_loss_and_its_gradient(text: str, expected: np.ndarray, gradient: np.ndarray) -> None:
    output, label = mx.nd.array(OUTPUT), mx.nd.array(LABEL)
    output.attach_grad()
    with mx.autograd.record():
        found = losses.build_of_numbers(text, 2)(output, label)
    found.backward()
    np.testing.assert_allclose(found.asnumpy(), expected.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(output.grad.asnumpy(), gradient / 2, rtol=1e-6)
