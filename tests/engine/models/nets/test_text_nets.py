"""Nets of texts: what lies behind a text's end changes no answer, and all numbers of --model are heeded."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components import nets
from mxtrain.core.errors import UsageError
from mxtrain.models.answers import answer_by
from mxtrain.models.nets import zoo
from mxtrain.runtime import mx
from mxtrain.tasks.sequence_classification import SequenceClassification
from mxtrain.tasks.token_classification import TokenClassification

NETS = ("text_cnn:width=6", "bilstm:width=6,hidden=5,layers=2", "transformer:layers=2,heads=2,width=8")


def answers(net, texts, length):
    tokens, mask = np.full((len(texts), length), 7.0), np.zeros((len(texts), length))
    for row, text in enumerate(texts):
        tokens[row, : len(text)], mask[row, : len(text)] = text, 1
    return net(mx.nd.array(tokens), mx.nd.array(mask)).asnumpy()


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("of_tokens", [True, False])
def test_what_lies_behind_the_end_changes_nothing(name, of_tokens):
    net = nets.build(name, vocabulary=20, num_classes=3, length=16, of_tokens=of_tokens)
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


@pytest.mark.parametrize("joins_layers", [False, True])
def test_an_lstm_that_is_compiled_answers_as_one_that_is_not_and_always_alike(joins_layers):
    """MXNet's, in static memory, would answer by where that is."""
    net = nets.build("bilstm:width=16,hidden=16", vocabulary=257, num_classes=3, length=32, of_tokens=True)
    net.initialize(mx.init.Normal(0.3))
    groups = [np.random.default_rng(n).integers(0, 257, (4, 16 * (1 + n % 2))) for n in range(6)]
    expected = [answers(net, group, group.shape[1]) for group in groups]
    with zoo.rewriting():
        zoo.compile_graph(net, [(4, 32), (4, 32)], mx.cpu())
        assert not joins_layers or answer_by(net)
        first, *others = ([answers(net, group, group.shape[1]) for group in groups] for _ in range(3))
    for found, right in zip(first, expected):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    for again in others:
        for found, right in zip(again, first):
            np.testing.assert_array_equal(found, right)


def test_heads_have_to_divide_the_width():
    with pytest.raises(UsageError, match="its width 8 is no multiple of its 3 heads"):
        nets.build("transformer:heads=3,width=8", vocabulary=9, num_classes=2, length=4, of_tokens=True)


class Own(mx.gluon.HybridBlock):
    def __init__(self, vocabulary, num_classes, length):
        super().__init__()
        self.sizes = vocabulary, num_classes, length
        self.tokens = mx.gluon.nn.Embedding(vocabulary, num_classes)

    def hybrid_forward(self, F, tokens, mask):
        return F.broadcast_mul(self.tokens(tokens), mask.expand_dims(2))


@pytest.mark.parametrize("task", [SequenceClassification, TokenClassification])
def test_nets_have_a_token_for_what_is_masked(task):
    """MXNet would take the last token for one that the net does not have."""
    description = {"class_names": ["a", "b"], "vocab_size": 9, "window": 16}
    for model in ("bilstm", f"{__name__}:Own"):
        net = task(config.parse(["--model", model]), description).build_net()
        (embedding,) = [each for name, each in net.collect_params().items() if "embedding" in name]
        assert embedding.shape[0] == 10
    assert net.sizes == (10, 2, 16)


def test_losses_count_labels_and_nothing_else():
    run = config.parse(["--task", "token_classification"])
    task = TokenClassification(run, {"class_names": ["a", "b", "c"], "vocab_size": 9, "window": 4})
    net = Own(10, 3, 4)
    net.initialize(mx.init.Normal(1))
    tokens, label = np.array([[1, 2, 3, 0], [4, 5, 0, 0]]), np.array([[2, -1, 0, -1], [-1, -1, -1, -1]])
    arrays = {"tokens": mx.nd.array(tokens), "mask": mx.nd.array(tokens > 0), "label": mx.nd.array(label)}
    outcome = task.plain_forward()(net, arrays)
    scores = net(arrays["tokens"], arrays["mask"]).log_softmax(axis=-1).asnumpy()
    assert float(outcome.weight.asscalar()) == 2
    assert float(outcome.losses.sum().asscalar()) == pytest.approx(
        -scores[0, 0, 2] - scores[0, 2, 0], rel=1e-5
    )
    nothing = task.plain_forward()(net, {**arrays, "label": mx.nd.array(np.full((2, 4), -1))})
    assert float(nothing.weight.asscalar()) == 0 and not nothing.losses.asnumpy().any()
