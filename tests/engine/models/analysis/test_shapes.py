"""First weights from a net's graph are those of a forward pass, to the bit, and no picture is computed for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.models.analysis import shapes
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.runtime import mx

CPU = [mx.cpu()]
PICTURE = (1, 3, 32, 32)


class Backwards(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Calls its layers in another order than they were made in; one of them knows its shape from the start."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.last = mx.gluon.nn.Dense(5, weight_initializer=mx.init.Normal(0.1))
            self.middle = mx.gluon.nn.Dense(7, in_units=8 * 30 * 30)
            self.first = mx.gluon.nn.Conv2D(8, 3)
            self.scale = self.params.get("scale", shape=(1, 7), init=mx.init.Uniform(1))

    def hybrid_forward(self, F: Any, pictures: Any, scale: Any) -> Any:
        return self.last(F.broadcast_mul(self.middle(self.first(pictures)), scale))


class BySize(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Asks for the size of its pictures, which a graph does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = mx.gluon.nn.Dense(5)

    def hybrid_forward(self, F: Any, pictures: Any) -> Any:
        return self.dense(pictures.reshape((pictures.shape[0], -1)))


def values(net: Any) -> dict[str, np.ndarray]:
    mx.nd.waitall()
    return {name: each.data().asnumpy() for name, each in net._collect_params_with_prefix().items()}


def initialised(build: Any, text: str) -> Any:
    net = build()
    initializers.initialize(net, text, CPU, seed=3)
    return net


@pytest.mark.parametrize("text", ["msra", "uniform"])
@pytest.mark.parametrize("name", ["small_resnet", "mobilenetv2_0.25", "backwards"])
def test_weights_are_those_of_a_forward_pass(name: str, text: str) -> None:
    build = Backwards if name == "backwards" else lambda: zoo.build(name, 5)
    computed = initialised(build, text)
    output = computed(mx.nd.zeros(PICTURE))
    expected = values(computed)
    filled = initialised(build, text)
    assert shapes.fill_parameters(filled, PICTURE) == output.shape == (1, 5)
    found = values(filled)
    assert expected.keys() == found.keys()
    for each in expected:
        np.testing.assert_array_equal(expected[each], found[each], err_msg=each)


def test_a_net_without_a_graph_is_left_alone() -> None:
    net = initialised(BySize, "msra")
    assert shapes.fill_parameters(net, PICTURE) is None
    assert net.dense.weight._deferred_init


@pytest.mark.parametrize("name", ["small_cnn", "resnet18_v1b"])
def test_known_nets_compile_without_computing_a_picture(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = initialised(lambda: zoo.build(name, 5), "msra")
    computed: list[str] = []
    for layer in ("Convolution", "FullyConnected"):
        monkeypatch.setattr(mx.nd, layer, lambda *given, layer=layer, **named: computed.append(layer))
    monkeypatch.setattr(mx.gluon.HybridBlock, "_call_cached_op", lambda *given: computed.append("graph"))
    zoo.compile(net, name, CPU, of_pictures(32, 5))
    assert not computed
    net(mx.nd.zeros(PICTURE))
    assert computed == ["graph"]
