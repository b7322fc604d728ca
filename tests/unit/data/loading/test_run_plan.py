"""The plan of a run: its length in steps and epochs, and the cut of a step over workers."""

from __future__ import annotations

from mxtrain import config
from mxtrain.data.loading import run_plan
from mxtrain.data.loading.run_plan import RunLength


def test_the_length_of_a_run() -> None:
    optim = config.Optim(batch_size=10, epochs=3)
    assert run_plan.run_length(optim, 95) == (10, 30)
    assert run_plan.run_length(config.Optim(batch_size=10, epochs=3, max_steps=25), 95) == (10, 25)


def test_epochs_of_steps() -> None:
    length = RunLength(steps_per_epoch=3, num_steps=8)
    assert [length.epoch_of(step) for step in range(1, 9)] == [1, 1, 1, 2, 2, 2, 3, 3]
    assert [step for step in range(9) if length.is_epoch_end(step)] == [3, 6, 8]


def test_the_last_step_of_an_epoch_has_the_samples_that_are_left() -> None:
    run = config.parse(
        ["--batch-size", "6", "--micro-batch", "2", "--kvstore", "dist_sync", "--num-workers", "2"]
    )
    plan = run_plan.of_run(run, 9)
    for epoch in range(2):
        whole, short = 2 * epoch, 2 * epoch + 1
        assert plan.micro_batches(whole, 0) == {0: range(0, 2), 2: range(4, 6)}
        assert plan.micro_batches(whole, 1) == {1: range(2, 4)}
        assert plan.micro_batches(short, 0) == {0: range(6, 8)}
        assert plan.micro_batches(short, 1) == {1: range(8, 9)}
