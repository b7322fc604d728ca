import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.data.loading import order

sizes = st.integers(1, 500)
batch_sizes = st.integers(1, 64)
seeds = st.integers(0, 2**64 - 1)
epochs = st.integers(0, 10_000)


def all_steps(samples, batch_size):
    return [
        order.step_samples(samples, step, batch_size)
        for step in range(order.steps_per_epoch(len(samples), batch_size))
    ]


@given(sizes, seeds, epochs)
def test_an_epoch_has_every_sample_once(num_samples, seed, epoch):
    assert sorted(order.epoch_order(num_samples, seed, epoch)) == list(range(num_samples))


@given(sizes, batch_sizes)
def test_only_the_last_step_is_short_and_none_is_empty(num_samples, batch_size):
    counts = [len(samples) for samples in all_steps(np.arange(num_samples), batch_size)]
    assert counts[:-1] == [batch_size] * (len(counts) - 1)
    assert 1 <= counts[-1] <= batch_size
    assert sum(counts) == num_samples


class_lists = st.lists(st.integers(0, 5), min_size=1, max_size=120).map(
    lambda found: np.array(found, np.float32)
)


@given(class_lists, seeds, epochs)
def test_a_balanced_epoch_is_as_long_and_has_every_class_as_often(classes, seed, epoch):
    samples = order.balanced_order(classes, seed, epoch)
    assert len(samples) == len(classes)
    counts = [np.count_nonzero(classes[samples] == which) for which in np.unique(classes)]
    assert max(counts) - min(counts) <= 1
    np.testing.assert_array_equal(samples, order.balanced_order(classes, seed, epoch))


@given(class_lists, seeds, st.integers(1, 30))
def test_over_balanced_epochs_the_samples_of_a_class_come_equally_often(classes, seed, num_epochs):
    drawn = np.concatenate([order.balanced_order(classes, seed, epoch) for epoch in range(num_epochs)])
    times = np.bincount(drawn, minlength=len(classes))
    by_class = [times[classes == which] for which in np.unique(classes)]
    assert all(counts.max() - counts.min() <= 1 for counts in by_class)
    totals = [counts.sum() for counts in by_class]
    assert max(totals) - min(totals) <= 1


def test_balanced_epochs_come_shuffled_and_differ():
    classes = np.repeat([0.0, 1.0], [90, 10])
    first, second = (order.balanced_order(classes, 0, epoch) for epoch in (0, 1))
    assert list(first) != list(second)
    assert 15 < np.count_nonzero(classes[first[:50]]) < 35


def test_epochs_and_seeds_have_orders_of_their_own():
    orders = {tuple(order.epoch_order(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_the_order_of_a_seed_never_changes():
    # A resumed run on another machine or a newer NumPy has to see what the first one would have seen.
    assert list(order.epoch_order(10, seed=7, epoch=3)) == [3, 5, 4, 7, 8, 0, 9, 2, 1, 6]
    assert order.sample_rng(seed=7, epoch=3, sample=5).random() == 0.8654059198697934


def test_what_does_not_exist_is_refused():
    with pytest.raises(IndexError, match="step 3 of an epoch with 3"):
        order.step_samples(np.arange(30), 3, 10)


@given(seeds, epochs, st.integers(0, 2**63))
def test_a_sample_draws_the_same_however_often_it_is_asked(seed, epoch, sample):
    first, second = (order.sample_rng(seed, epoch, sample).random(5) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_samples_draw_independently_along_every_axis():
    def draws(seed, epoch, sample):
        return order.sample_rng(seed, epoch, sample).random(64)

    for axis in range(3):
        coordinates = np.zeros((500, 3), int)
        coordinates[:, axis] = np.arange(500)
        table = np.stack([draws(*row) for row in coordinates.tolist()])
        # 32,000 uniform numbers: mean and neighbour correlation within 5 standard deviations.
        assert abs(table.mean() - 0.5) < 5 * np.sqrt(1 / 12 / table.size)
        centred = table - 0.5
        assert abs((centred[1:] * centred[:-1]).mean() * 12) < 5 / np.sqrt(table.size)
        assert len(np.unique(table)) == table.size
