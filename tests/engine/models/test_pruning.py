"""Nets of fewer channels compute what the whole nets do whose other channels nobody takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError
from mxtrain.models import pruning
from mxtrain.models.analysis import channels, graph
from mxtrain.models.analysis.graph import Node
from mxtrain.models.parameters import weights
from mxtrain.models.pruning import Cut
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train.net import build_net
from tests.support.nets.training_steps import QUICK_RESNET

CLASSES = 4
WAYS = f"{__name__}:ways"


class Ways(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Channels on all the ways that they take: lined up, filtered by themselves, scaled by a gate, flattened."""

    def __init__(self, num_classes: int):
        super().__init__()
        nn = mx.gluon.nn
        with self.name_scope():
            self.first, self.second = nn.Conv2D(6, 3, padding=1), nn.Conv2D(10, 1)
            self.norm, self.mixed, self.prelu = nn.BatchNorm(), nn.Conv2D(16, 1), nn.PReLU()
            self.depthwise = nn.Conv2D(16, 3, padding=1, groups=16, in_channels=16)
            self.gate = nn.Conv2D(16, 1)
            self.hidden, self.last = nn.Dense(12, activation="relu"), nn.Dense(num_classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        both = self.norm(F.concat(self.first(x), self.second(x), dim=1))
        filtered = self.prelu(self.depthwise(self.mixed(both)))
        gate = F.sigmoid(self.gate(F.contrib.AdaptiveAvgPooling2D(filtered, output_size=1)))
        return self.last(
            self.hidden(F.Pooling(F.broadcast_mul(filtered, gate), kernel=(2, 2), stride=(2, 2)))
        )


def ways(num_classes: int) -> Any:
    return Ways(num_classes)


def built(name: str, size: int, flags: str = "") -> build_net.BuiltNet:
    run = config.parse(f"--train none --model {name} --image-size {size} --init xavier {flags}".split())
    task = Classification.numbered(run, CLASSES)
    return build_net.build_to_train(task, [mx.cpu()])


def scattered(net: Any) -> None:
    """Give the net weights, scales and running statistics that all differ."""
    rng = np.random.default_rng(0)
    for parameter in weights.named_parameters(net).values():
        draw = rng.uniform(0.5, 1.5, parameter.shape) if parameter.name.endswith(("gamma", "var")) else None
        spread = math.prod(parameter.shape[1:]) ** -0.5  # or numbers grow beyond float32 in a deep net
        values = rng.normal(0, spread, parameter.shape) if draw is None else draw
        weights.put(parameter, mx.nd.array(values))


def assert_computes_the_same(name: str, size: int, path: Path) -> None:
    whole, shape = built(name, size).net, (1, 3, size, size)
    scattered(whole)
    whole.save_parameters(str(path))
    pruned = built(name, size, f"--pretrained {path} --prune 0.5")
    thin = pruned.net
    assert pruned.widths and all(
        thin_one.shape <= whole_one.shape
        for thin_one, whole_one in zip(thin.collect_params().values(), whole.collect_params().values())
    )
    plain = Classification.numbered(config.parse(["--train", "none", "--model", name]), CLASSES).build_net()
    groups = pruning.groups_of(plain, name, shape)
    cut = Cut(groups, pruned.widths)
    places = {place: long for long, place in groups.paths.items()}
    cut.choose({places[place]: array for place, array in weights.copy_of(whole).items()}, "")
    num_left = 0
    made_by_itself = {groups.paths[each] for each in groups.channels.depthwise}
    for place, parameter in weights.named_parameters(whole).items():
        line = groups.channels.axes.get(places[place], {}).get(1)
        if line and place not in made_by_itself:
            values = parameter.data().asnumpy()
            taken = pruning.kept_positions(line, groups, cut._kept)
            others = np.setdiff1d(np.arange(values.shape[1]), taken)
            num_left += len(others)
            values[:, others] = 0
            weights.put(parameter, mx.nd.array(values))
    assert num_left
    pictures = mx.nd.random.uniform(shape=(2, *shape[1:]))
    expected, found = whole(pictures).asnumpy(), thin(pictures).asnumpy()
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", [QUICK_RESNET, WAYS])
def test_a_thin_net_computes_what_the_whole_one_does_by_its_channels(name: str, tmp_path: Path) -> None:
    assert_computes_the_same(name, 16, tmp_path / "whole.params")


@pytest.mark.slow  # in small: the test above
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("resnet18_v1b", 64), ("resnet50_v1d", 64), ("resnet50_v2", 64), ("vgg11_bn", 64), ("dla34", 64)),
        *(("mobilenet0.25", 64), ("mobilenetv2_0.25", 64), ("mobilenetv3_small", 64), ("se_resnet18_v1", 64)),
        *(("resnext50_32x4d", 64), ("densenet121", 224), ("squeezenet1.0", 224)),
    ],
)
def test_so_do_gluoncvs(name: str, size: int, tmp_path: Path) -> None:
    assert_computes_the_same(name, size, tmp_path / "whole.params")


def test_channels_of_a_sum_are_one_group() -> None:
    net = Classification.numbered(
        config.parse(["--train", "none", "--model", QUICK_RESNET]), CLASSES
    ).build_net()
    groups = pruning.groups_of(net, QUICK_RESNET, (1, 3, 16, 16))
    assert sorted(len(group.layers) for group in groups.channels.groups.values()) == [1, 1, 1, 1, 2, 3]
    answer = [group for group in groups.channels.groups.values() if group.reason]
    assert [group.reason for group in answer] == [channels.ANSWER]


def test_a_group_that_is_taken_apart_stays_and_says_why() -> None:
    nodes = [
        Node("null", "data", (), {}),
        Node("null", "weight", (), {}),
        Node("Convolution", "conv", ((0, 0), (1, 0)), {"no_bias": "True"}),
        Node("SliceChannel", "halves", ((2, 0),), {}),
    ]
    found = channels.find(nodes, {"data": (1, 3, 8, 8), "weight": (8, 3, 3, 3)})
    assert found.groups[0].reason == "they go on to halves, of operator SliceChannel"
    assert graph.CONVOLUTIONS[0] == nodes[2].operator


@pytest.mark.parametrize(
    ("size", "share", "kept"),
    [(64, 0.5, 32), (64, 0.3, 48), (64, 0.9, 6), (16, 0.5, 8), (10, 0.25, 8), (4, 0.9, 0)],
)
def test_more_channels_than_a_block_remain_in_blocks(size: int, share: float, kept: int) -> None:
    assert pruning.kept_of(size, share) == kept


def test_weights_without_a_layer_that_is_pruned_are_refused(tmp_path: Path) -> None:
    whole = built(QUICK_RESNET, 16).net
    arrays = {
        name: mx.nd.array(array) for name, array in weights.copy_of(whole).items() if name != "0.weight"
    }
    mx.nd.save(str(tmp_path / "part.params"), arrays)
    with pytest.raises(DataError, match=r"part.params: has no weights of 0.weight to choose channels by"):
        built(QUICK_RESNET, 16, f"--pretrained {tmp_path / 'part.params'} --prune 0.5")
