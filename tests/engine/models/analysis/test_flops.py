"""The operations of a net, counted from its graph: those that one counts by hand, without computing anything."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mxtrain import config
from mxtrain.config.components import nets
from mxtrain.core.system import kernels
from mxtrain.models.analysis import flops, peak_flops
from mxtrain.models.analysis.flops import NodeFlops
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train.net import build_net
from tests.support.nets import gpt_nets

nn = mx.gluon.nn


def counted(net: Any, *shapes: tuple[int, ...]) -> list[NodeFlops]:
    """The operations of a net that is compiled here."""
    net.initialize()
    net.hybridize()
    net(*map(mx.nd.zeros, shapes))
    found = flops.of_net(net, shapes)
    assert found is not None
    return found


def total(nodes: list[NodeFlops] | None) -> tuple[int, int]:
    assert nodes
    return sum(node.forward for node in nodes), sum(node.backward for node in nodes)


def classifier(flags: str) -> Any:
    run = config.parse(f"--model resnet18_v1 --image-size 224 --batch-size 4 {flags}".split())
    return build_net.build_to_train(Classification.numbered(run, 1000), [mx.cpu()]).net


# ResNet-18 at 224: the first convolution; by stage the first block's convolutions, three others, and the shortcut.
OF_COLOURS = 112**2 * 64 * 3 * 49
STAGES = [(56, 64, 64, 0), (28, 64, 128, 1), (14, 128, 256, 1), (7, 256, 512, 1)]
RESNET18 = OF_COLOURS + 512 * 1000
RESNET18 += sum(
    size**2 * wide * (narrow * 9 + 3 * wide * 9 + shortcut * narrow)
    for size, narrow, wide, shortcut in STAGES
)


@pytest.mark.parametrize("flags", ["", "--remat true"])
def test_a_convolutional_net(flags: str) -> None:
    forward, backward = total(flops.of_net(classifier(flags), [(1, 3, 224, 224)]))
    assert forward == 2 * RESNET18 and 1.80e9 < RESNET18 < 1.83e9
    assert backward == 2 * forward - 2 * OF_COLOURS  # no gradient of the pictures


def test_what_is_frozen_has_no_gradient_of_its_weights() -> None:
    head = 2 * 512 * 1000
    _, backward = total(flops.of_net(classifier("--freeze features.*"), [(1, 3, 224, 224)]))
    assert backward == head  # its weights' gradient; nothing before it needs one


@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers(directions: int) -> None:
    steps, width, hidden = 20, 6, 32
    lstm = mx.gluon.rnn.LSTM(hidden, 2, bidirectional=directions == 2)
    (node,) = counted(lstm, (steps, 1, width))
    of_input = 2 * steps * 4 * hidden * width * directions
    of_rest = 2 * steps * 4 * hidden * (hidden + hidden * directions + hidden) * directions
    assert (node.operator, node.forward) == ("RNN", of_input + of_rest)
    assert node.backward == of_input + 2 * of_rest
    (gated,) = counted(mx.gluon.rnn.GRU(hidden, 2, bidirectional=directions == 2), (steps, 1, width))
    assert gated.forward * 4 == node.forward * 3


def test_the_named_lstm_is_counted() -> None:
    net = nets.build("lstm:hidden=32,layers=2", inputs={"x": (20, 6)}, outputs=5)
    forward, _ = total(counted(net, (1, 20, 6)))
    assert forward == 2 * 20 * 4 * 32 * (6 + 32 + 32 + 32) + 2 * 32 * 5


def test_a_language_model() -> None:
    net, _ = gpt_nets.built("gpt:layers=2,heads=2,width=16")
    length, width, words = gpt_nets.LENGTH, 16, gpt_nets.WORDS
    of_layer = 12 * width**2 * length + 2 * length**2 * width  # dense layers; scores and what they gather
    expected = 2 * (2 * of_layer + width * words * length)
    forward, backward = total(flops.of_net(net, [(1, length)]))
    assert forward == expected and backward == 2 * expected


class Products(mx.gluon.HybridBlock):
    """Those that no layer of the named nets has."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Conv2DTranspose(6, 3, strides=2, groups=2, in_channels=4)
        self.grouped = nn.Conv2D(8, 3, groups=4, in_channels=4, use_bias=False)

    def hybrid_forward(self, F: Any, pictures: Any, keys: Any) -> Any:
        scores = F.batch_dot(keys, keys, transpose_b=True)  # (2, 5, 5) of (2, 5, 7)
        turned = F.batch_dot(keys, keys, transpose_a=True)
        plain = F.dot(F.reshape(keys, (10, 7)), F.reshape(keys, (10, 7)), transpose_a=True)
        sums = [F.sum(each) for each in (self.up(pictures), self.grouped(pictures), scores, turned, plain)]
        return F.add_n(*sums)


def test_other_products() -> None:
    found = {node.operator + str(node.forward): node for node in counted(Products(), (1, 4, 6, 6), (2, 5, 7))}
    of_up, of_grouped = 2 * 4 * 36 * 3 * 9, 2 * 8 * 16 * 1 * 9
    of_scores, of_turned, of_plain = 2 * 2 * 25 * 7, 2 * 2 * 49 * 5, 2 * 49 * 10
    assert found.keys() == {
        *(f"Deconvolution{of_up}", f"Convolution{of_grouped}", f"dot{of_plain}"),
        *(f"batch_dot{of_scores}", f"batch_dot{of_turned}"),
    }
    assert found[f"Deconvolution{of_up}"].backward == of_up  # of its weights alone
    assert found[f"batch_dot{of_scores}"].backward == 0  # nothing there is learnt


def test_a_net_that_is_no_graph_has_no_count() -> None:
    class Plain(mx.gluon.Block):
        pass

    assert flops.of_net(Plain(), [(1, 3)]) is None


def test_the_peak_is_measured_within_its_time_and_draws_nothing() -> None:
    mx.random.seed(3)
    expected = mx.nd.random.uniform(shape=(4,)).asnumpy().tolist()
    mx.random.seed(3)
    started = time.monotonic()
    found = peak_flops.measure(mx.cpu(), "float32", 0.1)
    assert time.monotonic() - started < 10  # on a machine that is busy
    assert 1e9 < found < 1e15
    assert mx.nd.random.uniform(shape=(4,)).asnumpy().tolist() == expected


@pytest.mark.skipif(kernels.bf16_problem() is not None, reason="this CPU has no kernels for bfloat16")
def test_the_peak_in_bfloat16_is_measured_too() -> None:
    """A type that numpy does not know by its name."""
    assert peak_flops.measure(mx.cpu(), "bfloat16", 0.02) > 1e9
