"""The learning rate that a range test's losses suggest."""

from __future__ import annotations

import math

import numpy as np

from mxtrain.doctor.run import rate_choice

NUM_STEPS = 120
RATES = rate_choice.rates(NUM_STEPS)


def losses(seed: int, middle: float = 0.01, too_large: float = 0.5, noise: float = 0.1) -> list[float]:
    """Losses that fall around the rate `middle`, and rise from `too_large` on."""
    rng, found = np.random.default_rng(seed), []
    for rate in RATES:
        fall = 2.5 / (1 + (middle / rate) ** 2)
        rise = 0.0 if rate < too_large else 4 * math.log10(rate / too_large)
        found.append(3.0 - fall + rise + rng.normal(0, noise))
    return found


def test_the_rate_is_where_most_of_the_fall_is_done_for_any_noise() -> None:
    chosen = [rate_choice.choose(RATES, losses(seed)) for seed in range(20)]
    found = [each.rate for each in chosen if each.rate]
    assert len(found) == 20 and all(0.008 < rate < 0.03 for rate in found)
    assert max(found) / min(found) < 3
    assert all(each.rises_at and 0.2 < each.rises_at < 2 for each in chosen)


def test_the_rate_stays_far_below_the_one_from_which_on_the_loss_rises() -> None:
    chosen = rate_choice.choose(RATES, losses(0, middle=0.05, too_large=0.1, noise=0.0))
    assert chosen.rate is not None and chosen.rises_at is not None
    assert chosen.rate == chosen.rises_at / 10


def test_no_rate_is_suggested_where_the_loss_hardly_falls() -> None:
    rng = np.random.default_rng(0)
    chosen = rate_choice.choose(RATES, (2.3 + rng.normal(0, 0.05, NUM_STEPS)).tolist())
    assert chosen.rate is None and "gradients" in rate_choice.advice(chosen, 0.1)


def test_the_test_ends_where_all_that_was_learnt_is_lost() -> None:
    found = losses(0)
    end = next(step for step in range(1, NUM_STEPS) if rate_choice.has_diverged(found[:step]))
    assert 0.5 < RATES[end] < 8, "not while the loss falls, and not at the end alone"
    assert rate_choice.has_diverged([2.3] * 20 + [40.0] * 6)
    assert not rate_choice.has_diverged([2.3] * 20 + [6.0]), "one bad step"
