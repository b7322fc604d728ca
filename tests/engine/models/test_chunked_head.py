"""The softmax by chunks compared with the whole one in float64, in its loss, its gradients and its memory."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from mxtrain.kvstore.owners.step_sum import PIECE, StepSum
from mxtrain.models import losses
from mxtrain.models.heads import class_samples
from mxtrain.models.heads.chunked_head import Chunk, Samples, gradients, softmax
from mxtrain.models.heads.cosine_head import CosineHead
from mxtrain.models.heads.margins import Margin, of_loss
from mxtrain.optim.sums.grid import num_blocks
from mxtrain.optim.sums.row_totals import RowTotals
from mxtrain.runtime import mx
from tests.support.losses.margin_losses import margin_loss, scaled_cosines
from tests.support.losses.reference_losses import log_softmax

LOSSES = ["cross_entropy", "arcface:scale=64,margin=0.5", "cosface:scale=16,margin=0.35"]
Array = np.ndarray


class Owner:
    """The weights of a head in chunks, as somebody else holds them; counts those that are alive at once."""

    def __init__(self, weights: Array, lengths: list[int]):
        self.weights, self.ends = weights, np.cumsum([0, *lengths])
        self.gradient = np.full_like(weights, np.nan)
        self.alive = self.most_alive = 0

    def pull(self, chunk: int) -> Chunk:
        copied = self.weights[self.ends[chunk] : self.ends[chunk + 1]].copy()
        self.alive += 1
        self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(copied, self.let_go)
        return Chunk(copied)

    def let_go(self) -> None:
        self.alive -= 1

    def push(self, chunk: int, gradient: Chunk) -> None:
        assert np.isnan(self.gradient[self.ends[chunk] : self.ends[chunk + 1]]).all()
        self.gradient[self.ends[chunk] : self.ends[chunk + 1]] = gradient.weights


def case(seed: int, dtype: type) -> tuple[Array, Array, Array, list[int]]:
    """Features, weights, labels, and lengths of chunks, one of which has one class."""
    rng = np.random.default_rng(seed)
    lengths = [1, *rng.integers(1, 6000, rng.integers(1, 5)).tolist()]
    samples, width = rng.integers(1, 40), rng.integers(2, 130)
    features = rng.normal(size=(samples, width)).astype(dtype)
    weights = (rng.normal(size=(sum(lengths), width)) / width**0.5).astype(dtype)
    labels = rng.integers(0, sum(lengths), samples)
    features[::2] += (4 * weights[labels[::2]]).astype(dtype)  # half of them are certain
    labels[: samples // 4] = 0
    return features, weights, labels, lengths


def whole(features: Array, weights: Array, labels: Array, margin: Margin | None) -> Array:
    features, weights = features.astype(np.float64), weights.astype(np.float64)
    if margin is None:
        return np.asarray(-log_softmax(features @ weights.T)[np.arange(len(labels)), labels])
    return margin_loss(
        margin.name,
        scaled_cosines(features, weights, margin.scale),
        labels,
        margin.scale,
        margin.margin,
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_that_of_all_classes(loss: str, seed: int) -> None:
    for dtype, of_each, of_mean in ((np.float64, 1e-9, 1e-12), (np.float32, 1e-4, 1e-6)):
        features, weights, labels, lengths = case(seed, dtype)
        margin = of_loss(loss)
        owner = Owner(weights, lengths)
        (forward,) = softmax([Samples(features, labels)], lengths, owner.pull, margin)
        found = forward.losses
        expected = whole(features, weights, labels, margin)
        np.testing.assert_allclose(found, expected, rtol=of_each, atol=of_each * 1e-2)
        assert found.mean() == pytest.approx(expected.mean(), rel=of_mean)
        assert owner.most_alive == 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_all_classes(loss: str, seed: int) -> None:
    features, weights, labels, lengths = case(seed, np.float64)
    rng, margin, owner = np.random.default_rng(seed), of_loss(loss), Owner(weights, lengths)
    counts = rng.uniform(size=len(labels))
    samples = [Samples(features, labels, counts)]
    forward = softmax(samples, lengths, owner.pull, margin)
    (of_features,) = gradients(samples, forward, lengths, owner.pull, owner.push, margin)
    assert owner.most_alive == 1
    for _ in range(3):
        along, across = rng.normal(size=features.shape), rng.normal(size=weights.shape)
        after, before = (
            counts @ whole(features + step * along, weights + step * across, labels, margin)
            for step in (1e-6, -1e-6)
        )
        expected = (after - before) / 2e-6
        found_slope = (of_features * along).sum() + (owner.gradient * across).sum()
        assert found_slope == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_are_those_of_the_head_that_is_whole(loss: str) -> None:
    """In float32, as the net's own layer and `--loss` have them."""
    features, weights, labels, lengths = case(7, np.float32)
    margin, owner = of_loss(loss), Owner(weights, lengths)
    samples = [Samples(features, labels)]
    forward = softmax(samples, lengths, owner.pull, margin)
    (of_features,) = gradients(samples, forward, lengths, owner.pull, owner.push, margin)
    layer: Any = mx.gluon.nn.Dense(len(weights), use_bias=False, in_units=weights.shape[1])
    net = layer if margin is None else CosineHead(layer, margin.scale)
    net.initialize()
    net.weight.set_data(mx.nd.array(weights))
    data = mx.nd.array(features)
    data.attach_grad()
    with mx.autograd.record():
        result = losses.build(loss, 0.0, len(weights))(net(data), mx.nd.array(labels))
    result.backward()
    for ours, theirs in ((of_features, data.grad), (owner.gradient, net.weight.grad())):
        right = theirs.asnumpy()
        np.testing.assert_allclose(ours, right, atol=1e-4 * np.abs(right).max())


def test_the_same_arrays_have_the_same_bits_and_other_chunks_the_same_numbers() -> None:
    features, weights, labels, lengths = case(1, np.float32)
    margin = of_loss(LOSSES[1])
    results = []
    for cut in (lengths, lengths, [sum(lengths)]):
        owner = Owner(weights, cut)
        samples = [Samples(features, labels)]
        (forward,) = softmax(samples, cut, owner.pull, margin)
        (of_features,) = gradients(samples, [forward], cut, owner.pull, owner.push, margin)
        results.append((forward.losses, of_features, owner.gradient))
    for one, again, other in zip(*results):
        assert np.array_equal(one, again)
        np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(one).max())


def test_two_classes_and_one() -> None:
    samples, weights = [Samples(np.ones((1, 3)), np.array([0]))], np.array([[1.0, 0, 0], [0, 2, 0]])
    for count, expected in ((2, np.log1p(np.exp(1.0))), (1, 0.0)):
        owner = Owner(weights[:count], [1] * count)
        (forward,) = softmax(samples, [1] * count, owner.pull)
        assert forward.losses == pytest.approx(expected, abs=1e-15)
        (of_features,) = gradients(samples, [forward], [1] * count, owner.pull, owner.push)
        assert np.isfinite(of_features).all() and (of_features == 0).all() == (count == 1)


def test_a_sample_of_classes_is_the_softmax_over_those() -> None:
    features, weights, labels, lengths = case(2, np.float64)
    count = sum(lengths)
    for num_taken in (count // 3, count):
        classes = class_samples.step_classes(labels, count, num_taken, seed=3, step=5)
        owner = Owner(weights[classes], [len(classes)])
        places = np.searchsorted(classes, labels)
        (forward,) = softmax([Samples(features, places)], [len(classes)], owner.pull)
        np.testing.assert_allclose(forward.losses, whole(features, weights[classes], places, None), rtol=1e-9)
    (all_of_them,) = softmax([Samples(features, labels)], lengths, Owner(weights, lengths).pull)
    np.testing.assert_allclose(forward.losses, all_of_them.losses, rtol=1e-12)


NUM_MICRO_BATCHES = 6


@pytest.mark.parametrize("loss", LOSSES)
def test_exact_sums_have_the_same_bits_whichever_workers_share_a_step(loss: str) -> None:
    """Losses and features' gradients too; wide digits are among the sums, as some blocks' exponents are small."""
    rng, margin, width, lengths = np.random.default_rng(5), of_loss(loss), 16, [6144, 64, 3000]
    weights = rng.normal(size=(sum(lengths), width)).astype(np.float32)
    samples = [
        Samples(rng.normal(size=(4, width)).astype(np.float32), rng.integers(0, sum(lengths), 4))
        for _ in range(NUM_MICRO_BATCHES)
    ]
    exponents = [rng.integers(-40, -32, num_blocks(length * width)).astype(np.int32) for length in lengths]
    results = []
    for num_workers in (1, 2, 3):
        sums = [StepSum(mx.nd.zeros((length, width)), num_workers) for length in lengths]
        computed: dict[int, tuple[Array, Array]] = {}
        num_wide, complete = 0, [False for _ in lengths]
        for worker in range(num_workers):
            own = range(worker, NUM_MICRO_BATCHES, num_workers)
            totals = [RowTotals(of_chunk, 48, len(own)) for of_chunk in exponents]
            owner = Owner(weights, lengths)

            def add(chunk: int, rows: slice, number: int, addition: Chunk, total: Chunk) -> None:
                start = rows.start * width
                totals[chunk].add(start, number, addition.weights.ravel(), total.weights.reshape(-1))  # noqa: B023

            def push(chunk: int, gradient: Chunk) -> None:
                of_chunk, flat = totals[chunk], gradient.weights.ravel()  # noqa: B023
                for start in range(0, len(flat), PIECE):
                    part = flat[start : start + PIECE]
                    sums[chunk].add(start, part, of_chunk.wide_blocks, of_chunk.wide_totals)  # noqa: B023
                complete[chunk] = sums[chunk].finish_addend()  # noqa: B023

            mine = [samples[each] for each in own]
            forward = softmax(mine, lengths, owner.pull, margin)
            of_features = gradients(mine, forward, lengths, owner.pull, push, margin, add)
            computed.update(zip(own, zip((each.losses for each in forward), of_features)))
            num_wide += sum(len(each.wide_blocks) for each in totals)
        assert num_wide and all(complete)
        in_order = [array for each in range(NUM_MICRO_BATCHES) for array in computed[each]]
        results.append([*in_order, *(each.numbers.copy() for each in sums)])
    for one, *others in zip(*results):
        assert np.isfinite(one).all() and one.any()
        assert all(np.array_equal(one, other) for other in others)
