"""Nets of texts: what lies behind a text's end changes no answer, and all numbers of --model are heeded."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.models import text_nets
from mxtrain.runtime import mx

NETS = ("text_cnn:width=6", "bilstm:width=6,hidden=5,layers=2", "transformer:layers=2,heads=2,width=8")


def answers(net, texts, length):
    tokens, mask = np.full((len(texts), length), 7.0), np.zeros((len(texts), length))
    for row, text in enumerate(texts):
        tokens[row, : len(text)], mask[row, : len(text)] = text, 1
    return net(mx.nd.array(tokens), mx.nd.array(mask)).asnumpy()


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("of_tokens", [True, False])
def test_what_lies_behind_the_end_changes_nothing(name, of_tokens):
    net = text_nets.build(name, vocabulary=20, num_classes=3, length=16, of_tokens=of_tokens)
    net.initialize(mx.init.Normal(0.5))
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 20, length) for length in (5, 12, 1)]
    together = answers(net, texts, 16)
    assert together.shape == ((3, 16, 3) if of_tokens else (3, 3))
    for row, text in enumerate(texts):
        alone = answers(net, [text], len(text))[0]
        found = together[row, : len(text)] if of_tokens else together[row]
        np.testing.assert_allclose(found, alone, atol=2e-6)
    other = answers(net, [texts[1][::-1]], 12)[0]
    assert np.abs(other - answers(net, [texts[1]], 12)[0]).max() > 1e-4  # order matters


def test_heads_have_to_divide_the_width():
    with pytest.raises(UsageError, match="width is no multiple of heads"):
        text_nets.build("transformer:heads=3,width=8", vocabulary=9, num_classes=2, length=4, of_tokens=True)
