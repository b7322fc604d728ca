"""Generation: with keys and values kept it is the same as without, and tokens are drawn as asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.models.nets import generate
from mxtrain.models.nets.generate import Sampling
from mxtrain.runtime import mx
from tests.support.nets.gpt_nets import END, LENGTH, built

GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module")
def net():
    found, _ = built("gpt:layers=2,heads=2,width=32")
    for parameter in found.collect_params().values():  # as if trained: scores that differ
        if parameter.name.endswith("weight"):
            parameter.set_data(parameter.data() * 8)
    weight = found.scores.weight.data()
    weight[END] = -1  # with a norm around 1 the least likely, so that no document ends
    found.scores.weight.set_data(weight)
    found.norm.beta.set_data(found.norm.beta.data() + 1)
    return found


def drawn(net, prompt, count, sampling=GREEDY, seed=0):
    tokens = generate.tokens_after(prompt, net, LENGTH, mx.cpu(), sampling, np.random.default_rng(seed))
    return list(itertools.islice(tokens, count))


def test_a_cache_changes_no_token_and_scores_by_rounding_alone(net, monkeypatch):
    prompt = [END, 3, 1, 4]
    cached, whole = generate.with_cache(net, mx.cpu()), generate.without_cache(net, LENGTH, mx.cpu())
    tokens, known = list(prompt), 0
    while len(tokens) < LENGTH:
        scores, expected = cached(tokens, known), whole(tokens, 0)
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
        assert scores.std() > 0.1
        known = len(tokens)
        tokens.append(int(expected.argmax()))
    found = drawn(net, prompt, 3 * LENGTH)  # past its window, twice
    assert found[: LENGTH - 4] == tokens[4:]
    monkeypatch.setattr(generate, "with_cache", lambda net, context: whole)
    assert drawn(net, prompt, 3 * LENGTH) == found
    assert len(set(found)) > 3 and END not in found


def test_a_prompt_longer_than_the_window_is_cut(net):
    prompt = [END, *range(30)]
    assert drawn(net, prompt, 4) == drawn(net, prompt[-LENGTH:], 4)


def test_the_same_seed_draws_the_same(net):
    once, again, other = (drawn(net, [END], 20, Sampling(), seed) for seed in (1, 1, 2))
    assert once == again != other


def shares(sampling, probabilities, count=4000):
    rng = np.random.default_rng(0)
    chosen = [generate.choose(np.log(probabilities), sampling, rng) for _ in range(count)]
    return np.bincount(chosen, minlength=len(probabilities)) / count


@pytest.mark.parametrize("sampling", [Sampling(), GREEDY])
def test_a_net_that_has_diverged_says_no_token(sampling):
    with pytest.raises(DataError, match="scores of tokens are not finite, it has diverged"):
        generate.choose(np.full(4, np.nan), sampling, np.random.default_rng(0))


def test_tokens_are_drawn_by_their_probabilities():
    likely = np.array([0.1, 0.5, 0.15, 0.25])
    np.testing.assert_allclose(shares(Sampling(), likely), likely, atol=0.03)
    squared = likely**2 / (likely**2).sum()
    np.testing.assert_allclose(shares(Sampling(temperature=0.5), likely), squared, atol=0.03)
    np.testing.assert_allclose(shares(Sampling(top_k=2), likely), [0, 2 / 3, 0, 1 / 3], atol=0.03)
    np.testing.assert_allclose(shares(Sampling(top_p=0.8), likely), [0, 5 / 9, 1.5 / 9, 2.5 / 9], atol=0.03)
    assert shares(Sampling(top_p=0.3), likely, 50)[1] == shares(Sampling(top_k=1), likely, 50)[1] == 1
    assert shares(GREEDY, likely, 5)[1] == 1
