"""Requests for samples: epochs, overfitting, and the parts of workers."""

from __future__ import annotations

import collections
import itertools
from pathlib import Path
from typing import Any, Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain import config
from mxtrain.config import batch_plan
from mxtrain.data.loading import order, run_plan, sample_requests
from mxtrain.data.loading.loader import Request


class Pictures:
    """Records of nothing but labels."""

    path, class_names, descriptors = Path("pictures"), None, ()

    def __init__(self, count: int):
        self.seen: list[int] = []
        self._labels = np.arange(count, dtype=np.float32) % 3
        self.keys = np.arange(count)

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
    samples_of = sample_requests.epoch_sampler(run_of("--seed 3"), Pictures(10))
    for epoch in range(3):
        np.testing.assert_array_equal(samples_of(epoch), order.epoch_order(10, 3, epoch))


@pytest.mark.parametrize("sampling", ["once", "balanced"])
@pytest.mark.parametrize("num_batches", [1, 2, 100])
def test_overfitting_repeats_the_first_batches(sampling: str, num_batches: int) -> None:
    flags, pictures = f"--sampling {sampling} --seed 1", Pictures(22)
    usual = sample_requests.epoch_sampler(run_of(flags), pictures)(0)
    samples_of = sample_requests.epoch_sampler(run_of(f"{flags} --overfit {num_batches}"), pictures)
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
    judged, trained = (
        sample_requests.OverfitRecords(run, pictures),
        set(sample_requests.epoch_sampler(run, pictures)(0).tolist()),
    )
    assert len(judged) == len(trained) == 8
    assert {judged.read(position) for position in range(8)} == trained
    np.testing.assert_array_equal(judged.labels(), [judged.read(n) % 3 for n in range(8)])
    judged.will_need(np.array([0, 7]))
    assert pictures.seen == [judged.read(0), judged.read(7)]
    assert judged.where(1) == f"pictures: sample {judged.read(1)}"


@st.composite
def cuts(draw: st.DrawFn) -> config.Optim:
    """Draw a division of a step into micro-batches, also an uneven one."""
    batch_size = draw(st.integers(1, 40))
    micro_batch = draw(st.integers(1, batch_size))
    return config.Optim(batch_size=batch_size, micro_batch=micro_batch, seed=draw(st.integers(0, 99)))


sizes, places = st.integers(1, 300), st.integers(1, 5)


def dealt(
    optim: config.Optim, num_samples: int, num_workers: int, num_devices: int, first_step: int = 0
) -> list[list[Request]]:
    """Return the requests of each worker for two epochs."""
    devices = "cpu:" + ",".join(map(str, range(num_devices)))
    run = config.Run(optim=optim, layout=config.Layout(devices=devices, num_workers=num_workers))
    num_steps = 2 * order.steps_per_epoch(num_samples, optim.batch_size)
    pictures = Pictures(num_samples)
    samples_of, plan = sample_requests.epoch_sampler(run, pictures), run_plan.of_run(run, num_samples)
    return [
        list(sample_requests.training_requests(samples_of, plan, range(first_step, num_steps), worker))
        for worker in range(num_workers)
    ]


def plain(requests: Iterable[Request]) -> list[tuple[int, int, int, list[int]]]:
    return [(each.step, each.position, each.epoch, each.samples.tolist()) for each in requests]


@given(cuts(), sizes, places, places)
def test_every_sample_is_somebodys_once_an_epoch_whatever_the_mapping(
    optim: config.Optim, num_samples: int, num_workers: int, num_devices: int
) -> None:
    requests = list(itertools.chain(*dealt(optim, num_samples, num_workers, num_devices)))
    for epoch in (0, 1):
        seen = [n for each in requests if each.epoch == epoch for n in each.samples.tolist()]
        assert sorted(seen) == list(range(num_samples))


@given(cuts(), sizes, places, places)
def test_whoever_computes_a_micro_batch_it_is_the_same_one(
    optim: config.Optim, num_samples: int, num_workers: int, num_devices: int
) -> None:
    shares = dealt(optim, num_samples, num_workers, num_devices)
    (alone,) = dealt(optim, num_samples, 1, 1)
    assert sorted(plain(itertools.chain(*shares))) == plain(alone)


@given(cuts(), sizes)
def test_a_step_is_a_slice_of_its_epoch_and_only_what_is_last_is_short(
    optim: config.Optim, num_samples: int
) -> None:
    (requests,) = dealt(optim, num_samples, 1, 1)
    for epoch in (0, 1):
        of_epoch = [each for each in requests if each.epoch == epoch]
        samples = np.concatenate([each.samples for each in of_epoch])
        np.testing.assert_array_equal(samples, order.epoch_order(num_samples, optim.seed, epoch))
        for step, of_step in itertools.groupby(of_epoch, key=lambda each: each.step):
            *full, last = [len(each.samples) for each in of_step]
            assert all(size == optim.micro_batch for size in full) and 1 <= last <= optim.micro_batch
            assert sum(full) + last == optim.batch_size or step == of_epoch[-1].step


@given(cuts(), sizes, places, places)
def test_replicas_have_equal_shares_of_a_step_to_within_one(
    optim: config.Optim, num_samples: int, num_workers: int, num_devices: int
) -> None:
    num_replicas = num_workers * num_devices
    replicas = [
        (each.step, worker * num_devices + each.position % num_devices)
        for worker, share in enumerate(dealt(optim, num_samples, num_workers, num_devices))
        for each in share
    ]
    counts = collections.Counter(replicas)
    for step in {step for step, _ in replicas}:
        of_step = [counts[step, replica] for replica in range(num_replicas)]
        assert max(of_step) - min(of_step) <= 1


@given(cuts(), sizes, places, places, st.data())
def test_going_on_is_slicing(
    optim: config.Optim, num_samples: int, num_workers: int, num_devices: int, data: st.DataObject
) -> None:
    whole = dealt(optim, num_samples, num_workers, num_devices)
    first_step = data.draw(st.integers(0, 2 * order.steps_per_epoch(num_samples, optim.batch_size)))
    for share, rest in zip(whole, dealt(optim, num_samples, num_workers, num_devices, first_step)):
        assert plain(rest) == plain(each for each in share if each.step >= first_step)


@pytest.mark.parametrize(
    ("mapping", "positions"),
    [
        ("--devices cpu:0,1", [[0, 1, 2, 3, 4, 5, 6]]),
        ("--kvstore dist_sync --num-workers 2", [[0, 2, 4, 6], [1, 3, 5]]),
        ("--kvstore dist_sync --num-workers 2 --devices cpu:0,1", [[0, 1, 4, 5], [2, 3, 6]]),
        ("--kvstore dist_sync --num-workers 3 --devices cpu:0,1,2", [[0, 1, 2], [3, 4, 5], [6]]),
    ],
)
def test_micro_batches_go_round_the_replicas(mapping: str, positions: list[list[int]]) -> None:
    plan = batch_plan.of_run(config.parse(["--batch-size", "14", "--micro-batch", "2", *mapping.split()]))
    assert [plan.positions(7, worker) for worker in range(len(positions))] == positions
    assert plan.shares() == list(map(len, positions))


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
def test_workers_evaluate_each_sample_once(num_workers: int) -> None:
    shares = [
        sample_requests.evaluation_requests(150, 64, worker, num_workers) for worker in range(num_workers)
    ]
    seen = [sample for share in shares for request in share for sample in request.samples.tolist()]
    assert sorted(seen) == list(range(150))
