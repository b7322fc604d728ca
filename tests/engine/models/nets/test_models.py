"""Models by name: known names are GluonCV's, and each trains."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import numpy as np
import pytest

from mxtrain.config.components.zoo import gluoncv_names
from mxtrain.core.errors import UsageError
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.runtime import gluoncv, mx
from tests.support.breadth import slow_cases
from tests.support.nets.classifier_steps import CPU, train_once

# Modules of gluoncv.model_zoo whose nets classify pictures.
CLASSIFYING = {
    "alexnet",
    "cifarresnet",
    "cifarresnext",
    "cifarwideresnet",
    "densenet",
    "dla",
    "googlenet",
    "hrnet",
    "inception",
    "mobilenet",
    "mobilenetv3",
    "nasnet",
    "pruned_resnet.resnetv1b_pruned",
    "residual_attentionnet",
    "resnest",
    "resnet",
    "resnetv1b",
    "resnext",
    "senet",
    "shufflenet",
    "squeezenet",
    "vgg",
    "xception",
    "yolo.darknet",
}


def test_names_are_gluoncvs_classifiers() -> None:
    found = set()
    for name, function in gluoncv.model_zoo.model_zoo._models.items():
        module = function.__module__.replace("gluoncv.model_zoo.", "")
        # HRNet's other nets segment; int8 nets only infer.
        if module in CLASSIFYING and "int8" not in name and (module != "hrnet" or name.endswith("_c")):
            found.add(name)
    assert found == set(gluoncv_names.GLUONCV_CLASSIFIERS)


def test_a_name_leads_to_the_function_that_gluoncv_calls() -> None:
    for name in gluoncv_names.GLUONCV_CLASSIFIERS:
        module, function = gluoncv_names.function_of(name)
        found = getattr(importlib.import_module(module), function)
        assert found is gluoncv.model_zoo.model_zoo._models[name], name


@pytest.mark.parametrize(
    "name",
    ["small_cnn", "small_resnet", "mobilenetv2_0.25", "cifar_resnet20_v1", *slow_cases("resnet18_v1b")],
)
def test_a_net_by_name_trains(name: str) -> None:
    train_once(name, 32)


def test_a_layer_that_is_never_called_is_refused() -> None:
    name = "tests.support.nets.user_net:one_too_many"
    net = zoo.build(name, 5)
    initializers.initialize(net, "msra", CPU, seed=0)
    with pytest.raises(UsageError, match=f"--model {name}: has a layer that it never calls .*spare_weight"):
        zoo.compile(net, name, CPU, of_pictures(24, 5))


def test_the_seed_gives_the_weights() -> None:
    def weights(seed: int) -> np.ndarray:
        net = zoo.build("small_cnn", 5)
        initializers.initialize(net, "msra", CPU, seed)
        zoo.compile(net, "small_cnn", CPU, of_pictures(16, 5))
        return np.concatenate([p.data().asnumpy().ravel() for p in net.collect_params().values()])

    np.testing.assert_array_equal(weights(1), weights(1))
    assert not np.array_equal(weights(1), weights(2))


def test_the_graph_computes_what_the_block_does() -> None:
    net = zoo.build("small_resnet", 5)
    initializers.initialize(net, "msra", CPU, seed=0)
    picture = mx.nd.random.uniform(shape=(2, 3, 32, 32))
    imperative = net(picture).asnumpy()
    zoo.compile(net, "small_resnet", CPU, of_pictures(32, 5))
    np.testing.assert_allclose(net(picture).asnumpy(), imperative, rtol=1e-5, atol=1e-6)


def test_a_size_that_does_not_fit_is_refused() -> None:
    net = zoo.build("alexnet", 5)
    initializers.initialize(net, "msra", CPU, seed=0)
    with pytest.raises(UsageError, match="--image-size 8") as refused:
        zoo.compile(net, "alexnet", CPU, of_pictures(8, 5))
    assert "\n" not in str(refused.value)


def test_a_net_of_more_than_mxnet_can_count_is_refused() -> None:
    net = zoo.build("resnet50_v1b", 2_000_000)
    with pytest.raises(UsageError, match=r"\(2000000, 2048\) for 2000000 classes.* lower --num-classes"):
        zoo.check_sizes(net, "resnet50_v1b", 2_000_000)


def test_a_net_that_will_not_hybridize_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    name = "tests.support.nets.user_net:imperative_net"
    net = zoo.build(name, 2)
    initializers.initialize(net, "msra", CPU, seed=0)
    with caplog.at_level(logging.WARNING):
        zoo.compile(net, name, CPU, of_pictures(24, 2))
    assert sum("imperatively" in record.message for record in caplog.records) == 1
    assert net(mx.nd.zeros((1, 3, 24, 24))).shape == (1, 2)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("three_outputs", r"\(1, 3\) for one picture, but there are 5"),
        ("two_arrays", "a tuple"),
        ("nothing_to_train", "no parameters"),
    ],
)
def test_a_net_that_cannot_learn_these_classes_is_refused(path: str, words: str) -> None:
    name = f"tests.support.nets.user_net:{path}"
    net = zoo.build(name, 5)
    initializers.initialize(net, "msra", CPU, seed=0)
    with pytest.raises(UsageError, match=words):
        zoo.compile(net, name, CPU, of_pictures(24, 5))


def test_a_bug_in_a_users_net_keeps_its_traceback() -> None:
    net = zoo.build("tests.support.nets.user_net:buggy", 5)
    initializers.initialize(net, "msra", CPU, seed=0)
    with pytest.raises(NameError):
        zoo.compile(net, "tests.support.nets.user_net:buggy", CPU, of_pictures(24, 5))


def test_a_function_that_takes_other_arguments_is_refused() -> None:
    words = "is called with num_classes=5, but missing a required argument: 'values'; let it take"
    with pytest.raises(UsageError, match=words):
        zoo.build("tests.engine.models.nets.test_models:with_values", 5)


def with_values(num_classes: int, values: Any) -> None:
    raise AssertionError("not called")


def test_a_path_to_something_else_than_a_net_is_refused() -> None:
    with pytest.raises(UsageError, match="not a gluon Block"):
        zoo.build("builtins:dict", 5)
