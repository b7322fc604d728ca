"""The classes that a step takes: the same whoever asks, those of its labels among them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mxtrain.models.heads.class_samples import step_classes
from tests.support.checkout import ROOT


def test_they_are_sorted_and_have_those_of_the_labels() -> None:
    labels = np.array([7, 3, 3, 999, 0])
    for num_taken in (5, 100, 999):
        found = step_classes(labels, 1000, num_taken, seed=1, step=2)
        assert len(found) == num_taken and (np.diff(found) > 0).all()
        assert set(labels) <= set(found) and found[0] >= 0 and found[-1] < 1000
    assert step_classes(labels, 1000, 2, seed=1, step=2).tolist() == [0, 3, 7, 999]
    for num_taken in (1000, 2000):
        assert np.array_equal(step_classes(labels, 1000, num_taken, seed=1, step=2), np.arange(1000))


def test_they_are_those_of_the_whole_batch_however_workers_share_it() -> None:
    """Of another process too, and whatever the order of samples and the type of labels is."""
    labels = np.random.default_rng(0).integers(0, 5000, 64)
    whole = step_classes(labels, 5000, 500, seed=4, step=9)
    for workers in (2, 3, 8):
        shared = np.concatenate([labels[worker::workers] for worker in range(workers)])
        assert np.array_equal(step_classes(shared.astype(np.float32), 5000, 500, seed=4, step=9), whole)
    program = (
        "import numpy as np; from mxtrain.models.heads.class_samples import step_classes\n"
        "labels = np.random.default_rng(0).integers(0, 5000, 64)\n"
        "print(*step_classes(labels, 5000, 500, seed=4, step=9))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(each) for each in whole]


def test_the_numbers_of_a_seed_and_a_step_stay() -> None:
    found = step_classes(np.array([1]), 100, 8, seed=0, step=0)
    assert found.tolist() == [1, 25, 40, 41, 49, 53, 69, 79]


def test_every_class_is_as_likely_and_steps_differ() -> None:
    counts = np.zeros(50)
    drawn = [step_classes(np.array([0]), 50, 11, seed=2, step=step) for step in range(2000)]
    for classes in drawn:
        counts[classes] += 1
    assert counts[0] == 2000
    # 10 of 49: a mean of 408, and five deviations of 18.
    assert np.abs(counts[1:] - 2000 * 10 / 49).max() < 90
    assert len({tuple(classes) for classes in drawn}) > 1990


@pytest.mark.parametrize("other", [{"seed": 3, "step": 1}, {"seed": 2, "step": 2}])
def test_another_seed_or_step_is_another_sample(other: dict[str, int]) -> None:
    labels = np.arange(10)
    assert not np.array_equal(
        step_classes(labels, 1000, 100, **other), step_classes(labels, 1000, 100, seed=2, step=1)
    )
