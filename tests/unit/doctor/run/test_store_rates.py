from __future__ import annotations

from mxtrain.doctor.run.store_rates import EpochCost, epoch_cost

SIZES = [8_000_000] * 10


def test_data_that_fits_the_cache_is_asked_for_once():
    assert epoch_cost(SIZES, 800, 1 << 30, "permutation") == EpochCost(10, 80_000_000, 0, 0)


def test_windows_ask_for_each_block_once_an_epoch():
    assert epoch_cost(SIZES, 800, 40_000_000, "windows") == EpochCost(10, 80_000_000, 10, 80_000_000)


def test_a_permutation_of_more_than_the_cache_asks_for_a_block_for_most_samples():
    cost = epoch_cost(SIZES, 800, 40_000_000, "permutation")
    assert cost == EpochCost(400, 3_200_000_000, 400, 3_200_000_000)
