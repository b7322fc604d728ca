"""Models by name: known names are GluonCV's, and each trains."""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest

from mxtrain.config import autocast_costs
from mxtrain.config.components.zoo import gluoncv_names
from mxtrain.core.errors import UsageError
from mxtrain.core.system import kernels
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.runtime import gluoncv, mx
from tests.support.amp import ALL_NARROW, needs_bf16
from tests.support.nets.rounded_inputs import with_rounded_inputs

ROOT = Path(__file__).resolve().parents[4]
CPU, PICTURES = [mx.cpu()], 4
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


def input_size(name: str) -> int:
    if name.startswith("cifar"):
        return 32
    return 299 if name.startswith(("inception", "xception")) else 331 if name.startswith("nasnet") else 224


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


class Step(NamedTuple):
    """The mean loss of some pictures, and all gradients as one vector."""

    loss: float
    gradient: np.ndarray


def pictures(size: int) -> Any:
    """Return pictures that differ, of large patches: BatchNorm blows up what little does between those of noise."""
    patches = np.random.default_rng(0).standard_normal((PICTURES, 3, 4, 4)).astype(np.float32)
    return mx.nd.array(patches.repeat(-(-size // 4), axis=2).repeat(-(-size // 4), axis=3)[..., :size, :size])


def built(name: str, size: int, narrowing: Autocast | None = None) -> Any:
    net = zoo.build(name, 5)
    initializers.initialize(net, "msra", CPU, seed=0)
    zoo.compile(net, name, CPU, of_pictures(size, 5), narrowing, PICTURES)
    return net


def step_of(net: Any, size: int) -> Step:
    mx.random.seed(1)
    with mx.autograd.record():
        output = net(pictures(size)).astype("float32")
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(output, mx.nd.arange(PICTURES))
    loss.backward()
    assert output.shape == (PICTURES, 5)
    gradients = [p.grad().asnumpy().ravel() for p in net.collect_params().values() if p.grad_req != "null"]
    gradient = np.concatenate(gradients).astype(np.float64)
    assert np.isfinite(gradient).all() and gradient.any()
    return Step(float(loss.mean().asscalar()), gradient)


def train_once(name: str, size: int) -> Step:
    return step_of(built(name, size), size)


@pytest.mark.parametrize(
    "name", ["small_cnn", "small_resnet", "resnet18_v1b", "mobilenetv2_0.25", "cifar_resnet20_v1"]
)
def test_a_net_by_name_trains(name: str) -> None:
    train_once(name, 32)


class Narrow(NamedTuple):
    """A step in bfloat16 beside the same one in float32, and beside float32's operators on rounded inputs."""

    kernels: str
    share: float  # of the FLOPs that run in bfloat16
    loss: float  # over float32's
    length: float  # of the gradient, over that of float32's
    length_of_rounded: (
        float  # the same of float32's operators, with their inputs and gradients rounded to bfloat16
    )
    cosine: float  # of the gradient and float32's
    cosine_of_rounded: float

    @property
    def is_float32_but_for_rounding(self) -> bool:
        """With random weights and few pictures a deep net's gradient turns with any bit: so by what rounding does."""
        turned = 1 - self.cosine <= 0.05 + 1.5 * (1 - self.cosine_of_rounded)
        return turned and abs(self.loss - 1) < 0.1 and 0.5 < self.length / self.length_of_rounded < 2


def narrow_and_wide(name: str, size: int) -> Narrow:
    """Train a step in both, in bfloat16 all that can run so; for a process of its own, whose graphs stay rewritten."""
    times = autocast_costs.of_run("bf16", str(ALL_NARROW))
    assert times
    narrowing = Autocast(times)
    wide = train_once(name, size)
    narrow = step_of(built(name, size, narrowing), size)
    with mock.patch("mxtrain.models.autocast.autocast.with_casts", with_rounded_inputs):
        of_rounded = step_of(built(name, size, Autocast(times)), size)
    length, *others = (float(np.linalg.norm(step.gradient)) for step in (wide, narrow, of_rounded))
    cosines = [
        float(step.gradient @ wide.gradient) / (length * other)
        for step, other in zip((narrow, of_rounded), others)
    ]
    share = narrowing.forecast.share
    lengths = [other / length for other in others]
    return Narrow(kernels.onednn(), share, narrow.loss / wide.loss, *lengths, *cosines)


def in_a_process(name: str, cap: str) -> Narrow:
    """After large nets, oneDNN fails small ones in the same process now and then."""
    code = f"import json; from {__name__} import narrow_and_wide; found = narrow_and_wide({name!r}, {input_size(name)})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(json.dumps(found))"],
        cwd=ROOT,
        env={**os.environ, **({kernels.MAX_CPU_ISA: cap} if cap else {})},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    return Narrow(*json.loads(done.stdout.splitlines()[-1]))


NO_GRAPH = ("resnet50_v1b_gn", "resnet101_v1b_gn")
FEWER = {kernels.AMX: "AVX512_CORE_BF16"}.get(kernels.onednn(), "AVX512_CORE")


@needs_bf16
@pytest.mark.timeout(900)
@pytest.mark.parametrize("cap", ["", pytest.param(FEWER, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[pytest.mark.slow] * (each != "cifar_resnet20_v2"))
        for each in gluoncv_names.GLUONCV_CLASSIFIERS
    ],
)
def test_every_classifier_trains_in_bfloat16_as_in_float32(name: str, cap: str) -> None:
    """With the instructions that the CPU has, and without its best for bfloat16."""
    found = in_a_process(name, cap)
    print(
        f"{name} with oneDNN's {found.kernels}{'' if found.kernels == kernels.AMX else ', not AMX'}: {found}"
    )
    assert found.share > 0.9 or name in NO_GRAPH
    assert found.is_float32_but_for_rounding, found


@pytest.mark.skipif(kernels.bf16_problem() is None, reason="the test above trains them in float32 too")
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", gluoncv_names.GLUONCV_CLASSIFIERS)
def test_every_classifier_trains(name: str) -> None:
    code = f"from {__name__} import train_once; train_once({name!r}, {input_size(name)})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


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
