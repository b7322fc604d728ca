"""Mixup and CutMix: the result holds the two samples by the fractions of their labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.config.checks import run_checks
from mxtrain.data.augment.mixup import MixedIn, micro_batch_rng, mix
from mxtrain.data.loading import order

ONLY_MIXUP = {"mixup": 1.0, "cutmix": 0.0}
ONLY_CUTMIX = {"mixup": 0.0, "cutmix": 1.0}
BOTH = {"mixup": 1.0, "cutmix": 1.0}


def batch(num_samples: int, size: int = 32) -> tuple[Any, Any]:
    """Sample k has label k and shows k everywhere."""
    label = np.arange(num_samples, dtype=np.float32)
    return np.ascontiguousarray(
        np.broadcast_to(label[:, None, None, None], (num_samples, 3, size, size))
    ), label


def mixed(
    num_samples: int, seed: int = 0, step: int = 0, position: int = 0, **alphas: float
) -> tuple[Any, Any, Any]:
    data, label = batch(num_samples)
    return data, label, mix(data, label, step, position, seed=seed, **alphas)


def shares_of_the_next(label: Any, found: MixedIn) -> Any:
    """Return the fraction of the next sample in each."""
    return np.where(label == np.arange(len(label)), found.fraction, 1 - found.fraction)


@pytest.mark.parametrize("alphas", [ONLY_MIXUP, ONLY_CUTMIX, BOTH])
@pytest.mark.parametrize("num_samples", [2, 3, 16])
def test_pixels_hold_both_labels_by_their_shares(alphas: dict[str, float], num_samples: int) -> None:
    data, label, found = mixed(num_samples, **alphas)
    expected = (1 - found.fraction) * label + found.fraction * found.label
    np.testing.assert_allclose(data.mean(axis=(1, 2, 3)), expected, rtol=1e-4, atol=1e-5)
    assert (found.fraction >= 0).all() and (found.fraction <= 0.5).all(), "label is that of the larger part"
    own = np.arange(num_samples)
    pairs = [{own[k], own[(k + 1) % num_samples]} for k in own]
    assert [{int(a), int(b)} for a, b in zip(label, found.label)] == pairs


def test_mixup_blends_every_pixel_alike() -> None:
    data, _, found = mixed(16, **ONLY_MIXUP)
    assert (np.ptp(data.reshape(16, -1), axis=1) == 0).all()
    assert len(np.unique(found.fraction)) == 16, "each sample has a share of its own"


def test_cutmix_puts_in_one_box_of_untouched_pixels() -> None:
    for step in range(30):
        data, label, found = mixed(4, step=step, **ONLY_CUTMIX)
        for own, (sample, share) in enumerate(zip(data, shares_of_the_next(label, found))):
            put_in = sample[0] == (own + 1) % 4
            assert (put_in | (sample[0] == own)).all()
            assert (sample == sample[0]).all(), "in all channels"
            height, width = put_in.any(axis=1).sum(), put_in.any(axis=0).sum()
            assert put_in.sum() == height * width == round(float(share) * 32 * 32)


def test_shares_follow_the_beta_distribution() -> None:
    """Beta(a, a) has the mean 1/2 and the variance 1 / (8a + 4)."""
    for alpha in (0.2, 1.0):
        draws = [mixed(16, step=step, mixup=alpha, cutmix=0.0)[1:] for step in range(200)]
        shares = np.concatenate([shares_of_the_next(label, found) for label, found in draws])
        assert shares.mean() == pytest.approx(0.5, abs=0.02)
        assert shares.var() == pytest.approx(1 / (8 * alpha + 4), rel=0.05)


def test_a_coin_decides_where_both_are_wanted() -> None:
    outs = np.concatenate([mixed(16, step=step, **BOTH)[0] for step in range(60)])
    is_blend = np.array([len(np.unique(sample)) == 1 and sample.flat[0] % 1 != 0 for sample in outs])
    assert is_blend.mean() == pytest.approx(0.5, abs=0.05)


def test_boxes_are_centred_anywhere_and_cut_off_at_the_edges() -> None:
    """A corner is covered a fourth as often as the middle; compared with the probability of each pixel."""
    covered = np.zeros((32, 32))
    for step in range(400):
        data = mixed(8, step=step, **ONLY_CUTMIX)[0]
        covered += (data[:, 0] != np.arange(8)[:, None, None]).sum(axis=0) / (400 * 8)
    place, side = (np.arange(32) + 0.5) / 32, np.sqrt((np.arange(1000) + 0.5) / 1000)[:, None]
    of_centres = np.minimum(place + side / 2, 1) - np.maximum(place - side / 2, 0)
    np.testing.assert_allclose(covered, of_centres.T @ of_centres / 1000, atol=0.04)


def test_what_is_drawn_depends_on_seed_step_and_position_alone() -> None:
    np.random.seed(1)
    first = mixed(8, **BOTH)
    np.random.seed(2)
    np.testing.assert_array_equal(mixed(8, **BOTH)[0], first[0])
    others = [mixed(8, **{name: 1}, **BOTH)[0].tobytes() for name in ("seed", "step", "position")]
    assert len({first[0].tobytes(), *others}) == 4


def test_its_draws_are_none_of_a_sample() -> None:
    """Epoch 5's sample 7 and step 5's micro-batch 7 have the same three numbers."""
    assert micro_batch_rng(3, 5, 7).random() != order.sample_rng(3, 5, 7).random()


def test_without_alphas_nothing_is_touched() -> None:
    data, label, found = mixed(8, mixup=0.0, cutmix=0.0)
    assert found is None
    np.testing.assert_array_equal(data, batch(8)[0])
    np.testing.assert_array_equal(label, batch(8)[1])


@pytest.mark.parametrize("alphas", [ONLY_MIXUP, ONLY_CUTMIX])
def test_a_sample_alone_is_mixed_with_itself(alphas: dict[str, float]) -> None:
    """The last micro-batch of an epoch may hold one."""
    data, label, found = mixed(1, **alphas)
    np.testing.assert_allclose(data, batch(1)[0])
    assert label == found.label == 0


def test_bytes_are_mixed_to_the_nearest_value() -> None:
    data, label = batch(6)
    as_bytes = (data * 40).astype(np.uint8)
    of_floats = mix(data, label.copy(), 0, 0, seed=0, **BOTH)
    of_bytes = mix(as_bytes, label, 0, 0, seed=0, **BOTH)
    np.testing.assert_array_equal(of_floats.fraction, of_bytes.fraction)
    assert np.abs(as_bytes - 40 * data).max() <= 0.5001


@pytest.mark.parametrize("alpha", [run_checks.SMALLEST_ALPHA, 1e300])
def test_extreme_alphas_give_shares_too(alpha: float) -> None:
    for alphas in ({"mixup": alpha, "cutmix": 0.0}, {"mixup": 0.0, "cutmix": alpha}):
        data, _, found = mixed(8, **alphas)
        assert np.isfinite(data).all() and np.isfinite(found.fraction).all()
