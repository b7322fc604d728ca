"""The features of a net: what its head takes, of every family, and of a user's own net where its graph tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import runtime
from mxtrain.core.errors import UsageError

runtime.load()

from mxtrain.models.analysis import features  # noqa: E402
from mxtrain.models.contract import Contract, of_pictures  # noqa: E402
from mxtrain.models.nets import zoo  # noqa: E402
from mxtrain.models.parameters import initializers  # noqa: E402
from mxtrain.runtime import mx  # noqa: E402

NUM_CLASSES = 7
# For one net of each family the size of its pictures, and the number of its features.
FAMILIES = {
    "small_cnn": (32, 64),
    "small_resnet": (32, 128),
    "cifar_resnet20_v1": (32, 64),
    "resnet18_v1b": (32, 512),
    "squeezenet1.0": (224, 512),
    "mobilenetv2_0.25": (32, 1280),
}
LARGE_FAMILIES = {
    "alexnet": (224, 4096),
    "vgg11_bn": (224, 4096),
    "resnet18_v2": (64, 512),
    "resnest14": (64, 2048),
    "resnext50_32x4d": (64, 2048),
    "se_resnet18_v1": (64, 512),
    "se_resnext50_32x4d": (64, 2048),
    "mobilenet0.25": (64, 256),
    "mobilenetv3_small": (64, 1280),
    "densenet121": (224, 1024),
    "inceptionv3": (299, 2048),
    "googlenet": (224, 1024),
    "xception": (299, 2048),
    "nasnet_4_1056": (224, 1056),
    "residualattentionnet56": (224, 2048),
    "darknet53": (64, 1024),
    "dla34": (64, 1008),  # of all levels
    "hrnet_w18_small_v1_c": (224, 2048),
    "cifar_wideresnet16_10": (32, 640),
    "cifar_resnext29_32x4d": (32, 1024),
    "resnet18_v1b_0.89": (64, 512),
}


def compiled(net: Any, contract: Contract, name: str = "own:net") -> Any:
    initializers.initialize(net, "xavier", [mx.cpu()], 1)
    zoo.compile(net, name, [mx.cpu()], contract)
    return net


@pytest.mark.parametrize(
    "name",
    # six families hold it in small
    [*FAMILIES, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE_FAMILIES)],
)
def test_each_family_has_features(name: str) -> None:
    size, num_features = {**FAMILIES, **LARGE_FAMILIES}[name]
    net = compiled(zoo.build(name, NUM_CLASSES), of_pictures(size, NUM_CLASSES), name)
    pictures = mx.nd.random.uniform(shape=(2, 3, size, size))
    tapped = features.tapped(net, name)
    np.testing.assert_allclose(tapped(pictures).asnumpy(), net(pictures).asnumpy(), rtol=1e-4, atol=1e-5)
    found = features.by_sample(tapped.taken, name).asnumpy()
    assert found.shape == (2, num_features) and np.abs(found[0] - found[1]).max() > 0


class Own(mx.gluon.HybridBlock):
    """A net whose answer is its head's, behind what `end` says."""

    def __init__(self, end: str):
        super().__init__()
        self._end = end
        with self.name_scope():
            self.body = mx.gluon.nn.Dense(5, activation="tanh")
            self.head = mx.gluon.nn.Dense(NUM_CLASSES)
            self.scale = mx.gluon.nn.LayerNorm()

    def hybrid_forward(self, F: Any, data: Any) -> Any:
        found = F.Dropout(self.head(self.body(data)), p=0.5)
        return self.scale(found) if self._end == "norm" else self.scale(found) * 0 + found.softmax()


OF_VECTORS = Contract(
    inputs=((3,),), answer=(NUM_CLASSES,), noun="sample", takes="vectors", expects="classes"
)


def test_what_has_no_weights_may_stand_behind_a_head() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(5, activation="tanh"), mx.gluon.nn.Dense(NUM_CLASSES))
    net.add(mx.gluon.nn.HybridLambda(lambda F, found: F.Dropout(found, p=0.5).log_softmax()))
    net = compiled(net, OF_VECTORS)
    tapped = features.tapped(net, "own:net")
    vectors = mx.nd.random.uniform(shape=(4, 3))
    tapped(vectors)
    np.testing.assert_array_equal(
        features.by_sample(tapped.taken, "own:net").asnumpy(), net[0](vectors).asnumpy()
    )


@pytest.mark.parametrize("end", ["norm", "sum"])
def test_a_net_without_a_head_is_refused_in_words(end: str) -> None:
    net = compiled(Own(end), OF_VECTORS)
    with pytest.raises(
        UsageError, match=r"--embed: own:net ends in no Dense layer or convolution, but in .* \("
    ):
        features.tapped(net, "own:net")


def test_an_imperative_net_is_refused_in_words() -> None:
    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Dense(NUM_CLASSES))
    with pytest.raises(UsageError, match="--embed: own:net runs imperatively"):
        features.tapped(compiled(net, OF_VECTORS), "own:net")


def test_features_of_each_token_are_refused() -> None:
    with pytest.raises(UsageError, match="features of each token"):
        features.by_sample(mx.nd.zeros((2, 5, 3)), "bilstm")
