"""Recomputation in the backward pass changes memory and time, and no number."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components.zoo import gluoncv_names
from mxtrain.core.errors import UsageError
from mxtrain.models import remat, segments
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import Graph
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.telemetry import nonfinite
from tests.support.amp import BF16, needs_bf16
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    QUICK_RESNET,
    SIZE,
    arrays,
    assert_equal,
    batches,
    context_of_run,
    train,
)

nn = mx.gluon.nn


def split(net: Any, shape: tuple[int, ...]) -> list[Graph]:
    graph, shapes = graph_rewrites.nodes_and_shapes(net(mx.sym.var("data")), {"data": shape})
    return segments.split(graph, shapes, "data")


def context_of(flags: str) -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {QUICK_RESNET} {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


@pytest.mark.parametrize(
    "flags",
    [
        "--model small_resnet",
        "--freeze 0.*,1.*,3.* --devices cpu:0,1,2",
        *(
            pytest.param(flags, marks=pytest.mark.slow)
            for flags in (
                "--model small_cnn",
                "--devices cpu:0,1,2",
                "--freeze 0.*,1.*",
                "--model cifar_resnet20_v1 --freeze features.0.*,features.2.* --ema 0.9",
            )
        ),
    ],
)
def test_the_curve_and_the_weights_are_the_same(flags: str) -> None:
    plain, again = context_of(flags), context_of(flags + " --remat")
    assert len(again.net._segments) > 2
    before = arrays(plain)
    assert train(again, 3) == train(plain, 3)
    after = arrays(plain)
    assert_equal(arrays(again), after)
    for name in after:
        if name.endswith("running_var") and "freeze" not in flags:
            assert not np.allclose(after[name], before[name]), "running statistics moved"


FROZEN_BUT_MOVING = "0.weight,1.gamma,1.beta,3.*.weight,3.*.gamma,3.*.beta"


@pytest.mark.parametrize(
    "flags", ["--model cifar_resnet20_v2", f"--freeze {FROZEN_BUT_MOVING}", "--freeze 0.*,1.*"]
)
def test_running_statistics_are_the_same_to_the_bit(flags: str) -> None:
    """Also of norms that train nothing, and in segments in which nothing trains."""
    plain, again = context_of(flags), context_of(flags + " --remat")
    for context in (plain, again):
        train(context, 1)
    found, expected = arrays(again), arrays(plain)
    moved = [name for name in expected if name.endswith(running_statistics.NAME_ENDINGS)]
    assert moved
    for name in moved:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@needs_bf16
@pytest.mark.parametrize("flags", ["", "--model small_resnet --devices cpu:0,1"])
def test_what_runs_in_bfloat16_is_the_same_too(flags: str) -> None:
    plain, again = context_of(f"{flags} {BF16}"), context_of(f"{flags} {BF16} --remat")
    assert again.built.forecast == plain.built.forecast and plain.built.forecast.share > 0.9
    assert train(again, 3) == train(plain, 3)
    assert_equal(arrays(again), arrays(plain))


def test_two_runs_are_the_same_to_the_bit() -> None:
    assert train(context_of("--remat"), 3) == train(context_of("--remat"), 3)


def test_parameters_have_the_names_of_the_net() -> None:
    plain, again = (weights.named_parameters(context_of(flags).net) for flags in ("", "--remat"))
    assert list(plain) == list(again)


def test_dropout_is_the_same_in_both_computations() -> None:
    """Through identities, so that outputs and gradients show what was dropped."""
    size = 64
    first, drop, last = nn.Dense(size, in_units=size), nn.Dropout(0.5), nn.Dense(size, in_units=size)
    net = nn.HybridSequential()
    net.add(first, drop, last)
    net.initialize()
    for dense in (first, last):
        dense.weight.set_data(mx.nd.eye(size))
    net.hybridize()
    net(mx.nd.ones((8, size)))
    cut = remat.RecomputedNet(net, remat.Cut("--remat", split(net, (8, size)), "data", None, {}))
    assert any(cut.is_random[:-1])
    mx.random.seed(7)
    passed = []
    for _ in range(2):
        with mx.autograd.record():
            output = cut(mx.nd.ones((8, size)))
        output.backward()
        cut.finish_backward(mx.cpu())
        assert set(np.unique(output.asnumpy())) == {0.0, 2.0}
        np.testing.assert_array_equal(first.bias.grad().asnumpy(), output.asnumpy().sum(axis=0))
        passed.append(output.asnumpy())
    assert not np.array_equal(*passed), "the next micro-batch drops others"


def test_outside_of_training_the_net_is_computed_as_without() -> None:
    plain, again = context_of(""), context_of("--remat")
    picture = mx.nd.random.uniform(shape=(2, 3, SIZE, SIZE))
    np.testing.assert_allclose(again.net(picture).asnumpy(), plain.net(picture).asnumpy(), rtol=1e-5)


def test_a_recomputed_net_can_be_diagnosed() -> None:
    context = context_of("--remat")
    broken = weights.named_parameters(context.net)["5.body.0.weight"]
    broken.set_data(broken.data() * float("nan"))
    context.net.hybridize(active=False)
    found = nonfinite.find_origin(context, batches(4, 4, seed=0)[0], 0, 1.0)
    assert found is not None and "5.body.0" in found.layer and "weight is not finite" in found.layer


@pytest.mark.parametrize(
    ("name", "size", "at_most"),
    [
        ("small_resnet", 32, 0.4),
        ("resnet18_v1", 64, 0.4),
        ("resnet50_v1d", 64, 0.3),
        ("mobilenetv2_0.25", 64, 0.3),
        ("densenet121", 224, 0.3),
        ("vgg11_bn", 64, 0.5),
        ("darknet53", 64, 0.3),
        ("googlenet", 224, 0.3),
    ],
)
def test_cuts_lower_the_peak(name: str, size: int, at_most: float) -> None:
    """The peak is given as a share of all that the net computes."""
    net = zoo.build(name, 5)
    graph, shapes = graph_rewrites.nodes_and_shapes(net(mx.sym.var("data")), {"data": (1, 3, size, size)})
    computed, handed_on = segments.sizes(graph, shapes, 0, segments.passages_of(graph, shapes, 0))
    ends = segments.cuts(computed, handed_on)
    assert segments.peak(computed, handed_on, ends) <= at_most * sum(computed)


@pytest.mark.parametrize("name", ["resnet18_v1", "googlenet", "cifar_resnet20_v2"])
def test_each_operator_and_each_weight_is_in_one_segment(name: str) -> None:
    net = zoo.build(name, 5)
    whole = json.loads(net(mx.sym.var("data")).tojson())
    found = [node["name"] for graph in split(net, (1, 3, 224, 224)) for node in graph["nodes"]]
    operators = [each for each in found if each != segments.HANDED_ON]
    assert len(found) - len(operators) > 2
    assert sorted([*operators, "data"]) == sorted(node["name"] for node in whole["nodes"])


@pytest.mark.slow  # in small: the two tests above
@pytest.mark.parametrize(
    "name", sorted(set(gluoncv_names.GLUONCV_CLASSIFIERS) - {"resnet50_v1b_gn", "resnet101_v1b_gn"})
)
def test_each_classifier_that_becomes_a_graph_can_be_cut(name: str) -> None:
    """GluonCV's GroupNorm gives operators numbers that only imperative ones take."""
    size = 32 if name.startswith("cifar") else 299 if "ception" in name else 331 if "nasnet" in name else 224
    assert len(split(zoo.build(name, 5), (1, 3, size, size))) > 1


def test_cuts_are_near_the_best_ones() -> None:
    rng = random.Random(0)
    for _ in range(50):
        kept = [rng.randint(1, 30) for _ in range(rng.randint(1, 9))]
        handed_on = [rng.randint(1, amount) for amount in kept]
        places = range(1, len(kept))
        every = (list(ends) for count in range(len(kept)) for ends in itertools.combinations(places, count))
        best = min(segments.peak(kept, handed_on, ends) for ends in every)
        assert best <= segments.peak(kept, handed_on, segments.cuts(kept, handed_on)) <= 1.3 * best


def test_a_net_without_a_graph_is_refused() -> None:
    with pytest.raises(UsageError, match="imperative_net is no graph"):
        context_of("--model tests.support.nets.user_net:imperative_net --image-size 24 --remat")


def test_no_cut_is_between_two_uses_of_a_weight_or_of_a_value() -> None:
    data, weight = mx.sym.var("data"), mx.sym.var("weight")
    halves = mx.sym.split(mx.sym.relu(data, name="a"), num_outputs=2, name="b")
    x = mx.sym.dot(mx.sym.relu(halves[0] + halves[1], name="c"), 2 * weight, name="d")
    x = mx.sym.relu(mx.sym.dot(mx.sym.relu(x, name="e"), weight, name="f"), name="g") + 1
    graph, shapes = graph_rewrites.nodes_and_shapes(mx.sym.relu(x + mx.sym.relu(x)), {})
    first = next(place for place, node in enumerate(graph["nodes"]) if node["name"] == "data")
    names = [graph["nodes"][place]["name"] for place in segments.passages_of(graph, shapes, first)]
    assert [name for name in names if len(name) == 1] == ["a", "c", "f", "g"]
    assert len([name for name in names if len(name) > 1]) == 3, "two sums before, and one after g"
