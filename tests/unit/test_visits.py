"""Which samples epochs visit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.data import order, visits


class Pictures:
    """Records of nothing but labels."""

    path, class_names, descriptors = Path("pictures"), None, ()

    def __init__(self, count: int):
        self.seen: list[int] = []
        self._labels = np.arange(count, dtype=np.float32) % 3

    def __len__(self) -> int:
        return len(self._labels)

    def labels(self) -> Any:
        return self._labels

    def read(self, position: int, verify: bool = True) -> Any:
        return position

    def where(self, position: int) -> str:
        return f"pictures: sample {position}"

    def will_need(self, positions: Any) -> None:
        self.seen.extend(positions.tolist())


def run_of(flags: str) -> config.Run:
    return config.parse(["--batch-size", "4", *flags.split()])


def test_each_sample_once_an_epoch() -> None:
    samples_of = visits.of_run(run_of("--seed 3"), Pictures(10))
    for epoch in range(3):
        np.testing.assert_array_equal(samples_of(epoch), order.epoch_order(10, 3, epoch))


@pytest.mark.parametrize("sampling", ["once", "balanced"])
@pytest.mark.parametrize("num_batches", [1, 2, 100])
def test_overfitting_repeats_the_first_batches(sampling: str, num_batches: int) -> None:
    flags, pictures = f"--sampling {sampling} --seed 1", Pictures(22)
    usual = visits.of_run(run_of(flags), pictures)(0)
    samples_of = visits.of_run(run_of(f"{flags} --overfit {num_batches}"), pictures)
    for epoch in (0, 5):
        samples = samples_of(epoch)
        assert len(samples) == len(pictures), "an epoch is as long as without"
        for step in range(5):
            np.testing.assert_array_equal(
                order.step_samples(samples, step, 4), order.step_samples(usual, step % num_batches, 4)
            )


def test_what_is_overfitted_is_what_is_judged() -> None:
    pictures = Pictures(22)
    run = run_of("--overfit 2")
    judged, trained = visits.Overfitted(run, pictures), set(visits.of_run(run, pictures)(0).tolist())
    assert len(judged) == len(trained) == 8
    assert {judged.read(position) for position in range(8)} == trained
    np.testing.assert_array_equal(judged.labels(), [judged.read(n) % 3 for n in range(8)])
    judged.will_need(np.array([0, 7]))
    assert pictures.seen == [judged.read(0), judged.read(7)]
    assert judged.where(1) == f"pictures: sample {judged.read(1)}"


@pytest.mark.parametrize("num_devices", [1, 2, 3])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
@pytest.mark.parametrize("first_step", [0, 2, 3])
def test_workers_divide_every_step_among_themselves(
    num_workers: int, num_devices: int, first_step: int
) -> None:
    """Whoever computes a micro-batch, it is the same one; every sample of a step is somebody's, and only his."""
    devices = ",".join(map(str, range(num_devices)))
    cut, pictures = "--batch-size 7 --micro-batch 2 --seed 5", Pictures(17)
    run = run_of(f"{cut} --devices cpu:{devices} --kvstore dist_sync --num-workers {num_workers}")
    alone = list(visits.requests(run_of(cut), pictures, first_step, 6))
    shares = [list(visits.requests(run, pictures, first_step, 6, worker)) for worker in range(num_workers)]
    dealt = sorted((request for share in shares for request in share), key=lambda r: (r.step, r.position))
    assert [(r.step, r.position, r.epoch, r.samples.tolist()) for r in dealt] == [
        (r.step, r.position, r.epoch, r.samples.tolist()) for r in alone
    ]
    for worker, share in enumerate(shares):
        assert all(r.position // num_devices % num_workers == worker for r in share)


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
def test_workers_evaluate_each_sample_once(num_workers: int) -> None:
    shares = [visits.once(150, 64, worker, num_workers) for worker in range(num_workers)]
    seen = [sample for share in shares for request in share for sample in request.samples.tolist()]
    assert sorted(seen) == list(range(150))
