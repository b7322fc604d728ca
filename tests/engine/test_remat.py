"""Recomputation in the backward pass changes memory and time, and no number."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.models import initializers, remat, running_statistics, segments, weights, zoo
from mxtrain.runtime import mx
from mxtrain.train import nonfinite
from mxtrain.train.parts import TrainingParts, build_parts
from tests.support.training_steps import (
    CLASSES,
    FLAGS,
    QUICK_RESNET,
    SIZE,
    arrays,
    assert_equal,
    batches,
    train,
)

nn = mx.gluon.nn


def parts_of(flags: str) -> TrainingParts:
    line = f"--train t.rec --image-size {SIZE} --model {QUICK_RESNET} {FLAGS} {flags}"
    return build_parts(config.parse(line.split()), CLASSES)


@pytest.mark.parametrize(
    "flags",
    [
        "--model small_cnn",
        "--model small_resnet",
        "--devices cpu:0,1,2",
        "--model cifar_resnet20_v1 --freeze features.0.*,features.2.* --ema 0.9",
        "--freeze 0.*,1.*",
        "--freeze 0.*,1.*,3.* --devices cpu:0,1,2",
    ],
)
def test_the_curve_and_the_weights_are_the_same(flags: str) -> None:
    plain, again = parts_of(flags), parts_of(flags + " --remat")
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
    plain, again = parts_of(flags), parts_of(flags + " --remat")
    for parts in (plain, again):
        train(parts, 1)
    found, expected = arrays(again), arrays(plain)
    moved = [name for name in expected if name.endswith(running_statistics.NAME_ENDINGS)]
    assert moved
    for name in moved:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_two_runs_are_the_same_to_the_bit() -> None:
    assert train(parts_of("--remat"), 3) == train(parts_of("--remat"), 3)


def test_parameters_have_the_names_of_the_net() -> None:
    plain, again = (weights.named_parameters(parts_of(flags).net) for flags in ("", "--remat"))
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
    cut = remat.RecomputedNet(net, [[first, drop], [last]], (1, size))
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
    plain, again = parts_of(""), parts_of("--remat")
    picture = mx.nd.random.uniform(shape=(2, 3, SIZE, SIZE))
    np.testing.assert_allclose(again.net(picture).asnumpy(), plain.net(picture).asnumpy(), rtol=1e-5)


def test_a_recomputed_net_can_be_diagnosed() -> None:
    parts = parts_of("--remat")
    broken = weights.named_parameters(parts.net)["5.body.0.weight"]
    broken.set_data(broken.data() * float("nan"))
    parts.net.hybridize(active=False)
    found = nonfinite.find_origin(parts, batches(4, 4, seed=0)[0], 0, 1.0)
    assert found is not None and "5.body.0" in found.layer and "weight is not finite" in found.layer


@pytest.mark.parametrize(
    ("name", "size", "at_most"),
    [
        ("small_resnet", 32, 0.4),
        ("resnet18_v1", 64, 0.4),
        ("resnet50_v1b", 64, 0.3),
        ("resnet50_v1d", 64, 0.3),
        ("mobilenetv2_0.25", 64, 0.3),
        ("densenet121", 224, 0.3),
        ("vgg11_bn", 64, 0.5),
    ],
)
def test_cuts_lower_the_peak(name: str, size: int, at_most: float) -> None:
    """The peak is given as a share of all that the net computes."""
    net = zoo.build(name, 5)
    initializers.initialize(net, "msra", [mx.cpu()], seed=0)
    shape = (1, 3, size, size)
    found = segments.split(net, name, shape)
    kept, handed_on = segments._sizes([part for segment in found for part in segment], shape)
    ends = list(itertools.accumulate(map(len, found)))[:-1]
    assert segments._peak(kept, handed_on, ends) <= at_most * sum(kept)


def test_cuts_are_near_the_best_ones() -> None:
    rng = random.Random(0)
    for _ in range(50):
        kept = [rng.randint(1, 30) for _ in range(rng.randint(1, 9))]
        handed_on = [rng.randint(1, amount) for amount in kept]
        places = range(1, len(kept))
        every = (list(ends) for count in range(len(kept)) for ends in itertools.combinations(places, count))
        best = min(segments._peak(kept, handed_on, ends) for ends in every)
        assert best <= segments._peak(kept, handed_on, segments.cuts(kept, handed_on)) <= 1.3 * best


@pytest.mark.parametrize("name", ["darknet53", "googlenet", "tests.support.user_net:imperative_net"])
def test_nets_that_cannot_be_cut_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--remat: {name}"):
        segments.split(zoo.build(name, 5), name, (1, 3, 64, 64))


def test_shared_parameters_are_refused() -> None:
    first = nn.Conv2D(8, 3, padding=1, in_channels=8, prefix="first_")
    net = nn.HybridSequential(prefix="net_")
    net.add(nn.Conv2D(8, 3, in_channels=3), first, nn.Activation("relu"), nn.BatchNorm(in_channels=8))
    net.add(nn.Conv2D(8, 3, padding=1, in_channels=8, params=first.params), nn.Activation("relu"))
    with pytest.raises(UsageError, match=r"first_\w+ in several segments"):
        segments.split(net, "shared", (1, 3, 16, 16))
