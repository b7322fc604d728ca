"""Distributions of random weights, and residual branches that start at zero."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest

from mxtrain.config import Data, Model, Run
from mxtrain.core.errors import UsageError
from mxtrain.models.analysis import graph
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.models.parameters import weights as weights_module
from mxtrain.optim import freeze
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train.net import build_net

nn = mx.gluon.nn
CPU = [mx.cpu()]
INPUTS, OUTPUTS, KERNEL = 16, 64, 3
FAN_IN, FAN_OUT = INPUTS * KERNEL**2, OUTPUTS * KERNEL**2


def weights(text: str, seed: int = 0) -> np.ndarray:
    layer = nn.Conv2D(OUTPUTS, KERNEL, in_channels=INPUTS)
    initializers.initialize(layer, text, [mx.cpu(0), mx.cpu(1)], seed)
    first, second = (array.asnumpy() for array in layer.weight.list_data())
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(layer.bias.list_data()[0].asnumpy(), 0)
    result: np.ndarray = first
    return result


def test_weights_that_a_checkpoint_brings_are_not_drawn() -> None:
    run = Run(model=Model(model="small_cnn"), data=Data(image_size=16))
    fresh, resumed = (
        weights_module.copy_of(build_net.build_to_train(Classification.numbered(run, 3), CPU, widths).net)
        for widths in (None, {})
    )
    assert fresh.keys() == resumed.keys()
    name = next(name for name in fresh if name.endswith("weight"))
    assert fresh[name].any() and not resumed[name].any()


@pytest.mark.parametrize(
    ("text", "variance"),
    [
        ("msra", 2 / FAN_IN),
        ("msra:slope=0.5", 2 / 1.25 / FAN_IN),
        ("msra_out", 2 / FAN_OUT),
        ("xavier", 2 / (FAN_IN + FAN_OUT)),
        ("xavier_normal", 2 / (FAN_IN + FAN_OUT)),
        ("normal:sigma=0.02", 0.02**2),
        ("uniform:scale=0.3", 0.3**2 / 3),
        ("orthogonal:scale=2", 4 / FAN_IN),
        ("mxnet.initializer:One", 0.0),
    ],
)
def test_the_standard_deviation_of_weights(text: str, variance: float) -> None:
    drawn = weights(text)
    assert drawn.var() == pytest.approx(variance, rel=0.05)
    np.testing.assert_array_equal(drawn, weights(text))


def test_the_shapes_of_the_distributions() -> None:
    assert np.abs(weights("xavier")).max() <= math.sqrt(6 / (FAN_IN + FAN_OUT))
    assert np.abs(weights("msra")).max() > 3 * math.sqrt(2 / FAN_IN)
    rows = weights("orthogonal").reshape(OUTPUTS, FAN_IN)
    np.testing.assert_allclose(rows @ rows.T, np.eye(OUTPUTS), atol=1e-5)
    assert not np.array_equal(weights("msra", seed=0), weights("msra", seed=1))


def test_other_objects_than_initialisers_are_refused() -> None:
    with pytest.raises(UsageError, match="returned a dict"):
        initializers.build("builtins:dict")


@pytest.mark.parametrize("name", ["scaled", "scaled_when_called"])
@pytest.mark.parametrize("text", ["msra", "msra_out", "xavier", "xavier_normal", "orthogonal:scale=2"])
def test_a_weight_of_one_dimension_is_named_where_two_are_needed(text: str, name: str) -> None:
    with pytest.raises(
        UsageError, match=rf"--init {text}: needs two dimensions, and scaled\d+_scale has the shape"
    ):
        built(f"tests.support.nets.user_net:{name}", text)


@pytest.mark.parametrize("text", ["normal", "uniform", "mxnet.initializer:One"])
def test_other_initialisers_take_any_shape(text: str) -> None:
    assert built("tests.support.nets.user_net:scaled_when_called", text)[1].scale.data().asnumpy().all()


def built(name: str, text: str) -> Any:
    net = zoo.build(name, 2)
    initializers.initialize(net, text, CPU, seed=0)
    zoo.compile(net, name, CPU, of_pictures(16, 2))
    return net


def sums(net: Any, picture: Any) -> list[tuple[Any, ...]]:
    """The two arrays that go into each sum of the net, and the one that comes out."""
    nodes, data = graph.trace(net), mx.sym.var("data", dtype="float32")
    inside = net(data).get_internals()
    # Every trace numbers the operators anew, in the same order.
    outputs = [name for name in inside.list_outputs() if name.endswith("_output")]
    operators = [place for place, node in enumerate(nodes) if node.operator != "null"]
    named = dict(zip(operators, outputs))
    assert len(named) == len(operators) == len(outputs)
    wanted = [
        inside[named[place]]
        for each in operators
        if nodes[each].operator in graph.ADDS
        for place in [*(place for place, _ in nodes[each].inputs), each]
    ]
    arrays = mx.gluon.SymbolBlock(mx.sym.Group(wanted), [data], net.collect_params())(picture)
    return [
        tuple(array.asnumpy() for array in arrays[start : start + 3]) for start in range(0, len(arrays), 3)
    ]


def zero_branches(name: str, size: int) -> int:
    """Return how many sums are their shortcut alone; all must be."""
    net = zoo.build(name, 5)
    initializers.zero_gamma(net, name)
    initializers.initialize(net, "msra", CPU, seed=0)
    picture = mx.nd.random.uniform(shape=(1, 3, size, size))
    net(picture)
    found = sums(net, picture)
    for first, second, both in found:
        branch, shortcut = (first, second) if not first.any() else (second, first)
        assert not branch.any() and shortcut.any()
        np.testing.assert_array_equal(both, shortcut)
    return len(found)


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("small_resnet", 16, 6),
        pytest.param("resnet18_v1b", 32, 8, marks=pytest.mark.slow),
        pytest.param("resnet18_v1", 32, 8, marks=pytest.mark.slow),
        pytest.param("se_resnet18_v1", 32, 8, marks=pytest.mark.slow),
        # Its blocks are resnet50_v1d's, among more nets below.
        pytest.param("resnest14", 64, 4, marks=pytest.mark.slow),
        ("mobilenetv2_0.25", 32, 10),
        ("cifar_resnet20_v1", 16, 9),
    ],
)
def test_residual_branches_start_at_zero(name: str, size: int, expected: int) -> None:
    assert zero_branches(name, size) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((f"resnet50_v1{letter}", 16) for letter in ("", "b", "c", "d", "e", "s")),
        *(("resnet101_v1d", 33), ("resnext50_32x4d", 16), ("se_resnext50_32x4d", 16)),
        *(("senet_154", 50), ("resnest50", 16), ("resnet50_v1d_0.37", 16)),
    ],
)
def test_residual_branches_of_more_nets_start_at_zero(name: str, expected: int) -> None:
    assert zero_branches(name, 64) == expected


@pytest.mark.parametrize("name", ["small_cnn", "resnet18_v2", "densenet121", "cifar_wideresnet16_10"])
def test_nets_without_such_branches_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--zero-gamma: {name} has no residual branch"):
        initializers.zero_gamma(zoo.build(name, 5), name)


def test_frozen_branches_are_refused() -> None:
    net = zoo.build("small_resnet", 5)
    freeze.freeze(net, "3.body.4.gamma")
    with pytest.raises(UsageError, match=r"--zero-gamma: \w+gamma is frozen"):
        initializers.zero_gamma(net, "small_resnet")


def test_a_net_that_is_no_graph_is_refused() -> None:
    name = "tests.support.nets.user_net:imperative_net"
    with pytest.raises(UsageError, match="cannot be read as a graph"):
        initializers.zero_gamma(zoo.build(name, 2), name)


class Ways(mx.gluon.HybridBlock):
    """Sums of two ways: a residual block, one of two equal ways, and one whose branch ends in a convolution."""

    def __init__(self) -> None:
        super().__init__(prefix="ways_")
        with self.name_scope():
            self.branch, self.left, self.right, self.bare = (nn.HybridSequential() for _ in range(4))
            for way, gate in ((self.branch, "tanh"), (self.left, "relu"), (self.right, "relu")):
                way.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Conv2D(4, 3, padding=1))
                way.add(nn.BatchNorm(), nn.Activation(gate))
            self.bare.add(nn.BatchNorm(), nn.Conv2D(4, 3, padding=1))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        x = x + self.branch(x)
        x = self.left(x) + self.right(x)
        return x + self.bare(x)


def test_only_residual_branches_count(caplog: pytest.LogCaptureFixture) -> None:
    net = Ways()
    found = graph.residual_branches(graph.trace(net))
    assert found == graph.ResidualBranches([net.branch[3].gamma.name], num_without=1)
    with caplog.at_level(logging.INFO):
        initializers.zero_gamma(net, "ways")
    assert "1 residual branches start at zero; 1 others end in no norm" in caplog.text
