"""Mobile nets' blocks for answers by our operators: MXNet's numbers, the same bits, only where they are right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.models import answers
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import joined_layers
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import (
    BLOCK,
    CHANNEL_MEANS,
    CONVOLUTION,
    CONVOLUTION_WEIGHTS,
    FIRST_BLOCK,
    FIRST_CONVOLUTION,
)
from mxtrain.train.net import build_net
from tests.support.nets.answering import weights_taken_once
from tests.support.nets.symbols import forward, operators, values_of
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
OURS = {*BLOCK.values(), FIRST_BLOCK, FIRST_CONVOLUTION, CHANNEL_MEANS}
# Batches, channels and sides: parts of panels, one place, and pictures whose rows go on a few at a time.
SHAPES = [
    (2, 8, 7, 7),
    (3, 5, 14, 14),
    (1, 24, 13, 11),
    (4, 17, 8, 9),
    (1, 40, 60, 63),
    (5, 12, 3, 2),
    (1, 3, 1, 1),
]
SIZES = [(3, 1, 1), (3, 2, 1), (5, 1, 2), (5, 2, 2), (3, 1, 2), (5, 2, 1)]  # kernel, stride, pad
FIRST: dict[str, Any] = {"kernel": (3, 3), "pad": (1, 1)}


def activated(data: Any, kind: str | None) -> Any:
    if kind == "relu":
        return mx.sym.relu(data)
    if kind == "relu6":
        return mx.sym.clip(data, 0, 6)
    return data * (mx.sym.clip(data + 3, 0, 6) / 6) if kind == "hard_swish" else data


def layer(data: Any, name: str, channels: int, kind: str | None, **attributes: Any) -> Any:
    """Return a convolution, of 1 x 1 unless `attributes` say otherwise, a norm and an activation."""
    chosen = {"kernel": (1, 1), "no_bias": True, "name": f"{name}conv", **attributes}
    made = mx.sym.Convolution(data, num_filter=channels, **chosen)
    return activated(mx.sym.BatchNorm(made, name=f"{name}norm", fix_gamma=False, eps=1e-2), kind)


def gated(data: Any, name: str, channels: int) -> Any:
    means = mx.sym.Pooling(data, global_pool=True, pool_type="avg", kernel=(1, 1))
    first = mx.sym.Convolution(means, num_filter=max(1, channels // 4), kernel=(1, 1), name=f"{name}first")
    second = mx.sym.Convolution(mx.sym.relu(first), num_filter=channels, kernel=(1, 1), name=f"{name}second")
    return mx.sym.broadcast_mul(data, mx.sym.clip(second + 3, 0, 6) / 6, name=f"{name}product")


def block(data: Any, name: str, channels: tuple[int, int], sizes: Any, kind: str, **more: Any) -> Any:
    """Return a block, which expands `channels` where they differ, and adds what it takes where it can."""
    (inputs, wide), (kernel, stride, pad) = channels, sizes
    made = data if wide == inputs else layer(data, f"{name}b", wide, kind)
    window = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
    made = layer(made, f"{name}c", wide, kind, num_group=wide, **window, **more.get("depthwise", {}))
    made = gated(made, name, wide) if more.get("has_gate") else made
    made = layer(made, f"{name}d", inputs, None, **more.get("last", {}))
    return made + data if stride == 1 and 2 * pad + 1 == kernel else made


def net_of(channels: int, sizes: Any, kind: str, has_gate: bool, **more: Any) -> Any:
    """Return a first convolution and blocks: one without an expansion, one of these sizes, three after it."""
    data = layer(mx.sym.var("data", dtype="float32"), "first", channels, kind, **FIRST)
    made = block(data, "one", (channels, channels), (3, 1, 1), kind, has_gate=has_gate)
    made = block(made, "two", (channels, 2 * channels + 1), sizes, kind, has_gate=has_gate, **more)
    made = block(made, "three", (channels, 3 * channels), (3, 1, 1), kind, has_gate=has_gate)
    made = block(made, "four", (channels, 2 * channels), (3, 1, 1), kind)
    return block(made, "five", (channels, 2 * channels), (3, 1, 1), kind)


def assert_close(found: Any, right: Any) -> None:
    np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4 * max(1, np.abs(right).max()))


def of_colours(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], 3, *shape[2:])


def assert_answers(shape: Any, sizes: Any, kind: str, has_gate: bool) -> None:
    """Have a net answer as MXNet's operators do, by one operator of ours for each block."""
    plain = net_of(shape[1], sizes, kind, has_gate)
    ours = joined_layers.for_answers(plain, {"data": of_colours(shape)})
    found = operators(ours)
    assert found.count(BLOCK[False, has_gate]) == 1
    assert found.count(BLOCK[True, has_gate]) == (2 if has_gate else 4)
    assert found.count(FIRST_CONVOLUTION) == found.count("transpose") == 1
    assert not {"Convolution", "BatchNorm", "elemwise_add", "broadcast_mul"} & set(found)
    values = values_of(plain, of_colours(shape))
    assert_close(forward(ours, values), forward(plain, values))


KINDS = [("hard_swish", True), ("relu6", False), ("relu", True), ("identity", False)]


@pytest.mark.parametrize(("kind", "has_gate"), KINDS)
def test_blocks_answer_as_mxnets_operators_do(kind: str, has_gate: bool) -> None:
    first = [kind for kind, _ in KINDS].index(kind)
    for number, shape in enumerate(SHAPES):
        sizes = SIZES[(first + number) % len(SIZES)]
        if min(shape[2:]) + 2 * sizes[2] >= sizes[0]:
            assert_answers(shape, sizes, kind, has_gate)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "has_gate"), KINDS)
def test_blocks_of_all_sizes_answer_as_mxnets_operators_do(kind: str, has_gate: bool) -> None:
    for shape, sizes in itertools.product(SHAPES, SIZES):
        if min(shape[2:]) + 2 * sizes[2] >= sizes[0]:
            assert_answers(shape, sizes, kind, has_gate)


@pytest.mark.parametrize("colours", [1, 4])
@pytest.mark.parametrize(
    "first",
    [
        {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)},
        {"kernel": (5, 5)},
        {"kernel": (7, 7), "stride": (2, 2), "pad": (3, 3)},
    ],
)
def test_the_whole_net_is_in_one_order_from_its_first_layer_to_its_means(colours: int, first: Any) -> None:
    shape = (3, colours, 33, 30)
    made = layer(mx.sym.var("data", dtype="float32"), "first", 12, "relu6", **first)
    made = block(made, "one", (12, 30), (3, 1, 1), "relu6")
    made = layer(made, "last", 32, "relu6")
    plain = mx.sym.flatten(mx.sym.Pooling(made, global_pool=True, pool_type="avg", kernel=(1, 1)))
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    left = [each for each in operators(ours) if each not in ("null", *CONVOLUTION_WEIGHTS.values())]
    assert left == [FIRST_CONVOLUTION, BLOCK[True, False], CONVOLUTION, CHANNEL_MEANS, "Flatten"]
    assert_close(forward(ours, values), forward(plain, values))


def begun(channels: int, first: dict[str, Any], sizes: Any, kind: str) -> Any:
    """Return a first convolution, a block without an expansion or a sum, and four with these."""
    data = layer(mx.sym.var("data", dtype="float32"), "first", channels, kind, **first)
    made = block(data, "one", (channels, channels), sizes, kind)
    for name in ("two", "three", "four", "five"):
        made = block(made, name, (channels, 2 * channels), (3, 1, 1), kind)
    return made


@pytest.mark.parametrize(
    ("shape", "channels", "first", "sizes", "kind"),
    [
        ((1, 3, 130, 131), 32, {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}, (3, 1, 2), "relu6"),
        ((5, 1, 9, 12), 7, {"kernel": (3, 3), "pad": (1, 1)}, (3, 2, 1), "hard_swish"),
        ((2, 4, 70, 61), 24, {"kernel": (5, 5), "pad": (1, 1)}, (5, 1, 1), "relu"),
        ((3, 3, 4, 3), 17, {"kernel": (1, 1), "stride": (3, 3)}, (3, 2, 1), "identity"),
    ],
)
def test_a_first_convolution_and_the_block_behind_it_are_one_operator(
    shape: Any, channels: int, first: Any, sizes: Any, kind: str
) -> None:
    plain = begun(channels, first, sizes, kind)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert {FIRST_BLOCK, BLOCK[True, False]} <= set(operators(ours))
    assert not {FIRST_CONVOLUTION, "Convolution", "BatchNorm"} & set(operators(ours))
    found = forward(ours, values)
    assert_close(found, forward(plain, values))
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])
    alone = [{**values, "data": values["data"][at : at + 1].copy()} for at in range(shape[0])]
    assert np.concatenate([forward(ours, each) for each in alone]).tobytes() == found.tobytes()
    values["data"][0, 0, 1, 1] = np.nan
    np.testing.assert_array_equal(np.isnan(forward(ours, values)), np.isnan(forward(plain, values)))


def test_a_first_convolution_that_something_else_takes_stays_apart() -> None:
    shape, plain = (2, 3, 9, 9), begun(8, FIRST, (3, 1, 2), "identity")
    means = mx.sym.Pooling(plain, global_pool=True, pool_type="avg", kernel=(1, 1))
    inside = plain.get_internals()["firstnorm_output"] * 2
    both = mx.sym.concat(mx.sym.flatten(means), mx.sym.flatten(inside))
    for each in (net_of(8, (3, 1, 1), "relu", False), both):
        ours, values = joined_layers.for_answers(each, {"data": shape}), values_of(each, shape)
        assert FIRST_CONVOLUTION in operators(ours) and FIRST_BLOCK not in operators(ours)
        assert_close(forward(ours, values), forward(each, values))


def headed(channels: int, kind: str | None) -> tuple[Any, Any]:
    """Return means of a block and what two layers of 1 x 1 make of them, the second one without a bias."""
    data = layer(mx.sym.var("data", dtype="float32"), "first", 8, "relu6", **FIRST)
    made = block(data, "one", (8, 20), (3, 1, 1), "relu6")
    means = mx.sym.Pooling(made, global_pool=True, pool_type="avg", kernel=(1, 1), name="means")
    hidden = mx.sym.Convolution(means, num_filter=channels, kernel=(1, 1), name="hidden")
    scores = {"num_filter": 11, "kernel": (1, 1), "no_bias": True, "name": "scores"}
    return means, mx.sym.Convolution(activated(hidden, kind), **scores)


@pytest.mark.parametrize(
    ("batch", "channels", "kind"), [(1, 40, "hard_swish"), (3, 7, "relu"), (14, 33, None)]
)
def test_layers_of_means_are_flat_operators_of_ours(batch: int, channels: int, kind: str | None) -> None:
    shape, plain = (batch, 3, 9, 9), mx.sym.flatten(headed(channels, kind)[1])
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert operators(ours).count(CONVOLUTION) == 2
    assert not {"Convolution", "Flatten", "_sg_mkldnn_conv", "transpose"} & set(operators(ours))
    assert_close(forward(ours, values), forward(plain, values))
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])


def test_layers_of_means_that_something_else_takes_stay_mxnets() -> None:
    shape, (means, scores) = (2, 3, 9, 9), headed(12, "relu")
    for plain in (scores, mx.sym.concat(mx.sym.flatten(scores), mx.sym.flatten(means))):
        ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
        assert CHANNEL_MEANS in operators(ours) and CONVOLUTION not in operators(ours)
        assert_close(forward(ours, values), forward(plain, values))


def test_what_several_nodes_take_is_computed_for_all_of_them() -> None:
    shape, plain = (2, 3, 9, 9), net_of(6, (3, 1, 1), "hard_swish", True)
    for name in ("twobnorm", "twocnorm", "twofirst", "twoproduct", "twodnorm"):
        inside = plain.get_internals()[f"{name}_output"]
        both = mx.sym.concat(mx.sym.flatten(plain), mx.sym.flatten(inside * 2))
        ours, values = joined_layers.for_answers(both, {"data": shape}), values_of(both, shape)
        assert_close(forward(ours, values), forward(both, values))


@pytest.mark.parametrize(("channels", "sides"), [(12, (7, 7)), (7, (30, 17)), (40, (57, 64))])
@pytest.mark.parametrize(("sizes", "has_gate"), [((3, 1, 1), False), ((5, 2, 2), True)])
def test_the_bits_are_those_of_any_number_of_threads_and_of_any_batch(
    channels: int, sides: Any, sizes: Any, has_gate: bool
) -> None:
    shape, plain = (3, 3, *sides), net_of(channels, sizes, "hard_swish", has_gate)
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert set(operators(ours)) >= {BLOCK[True, has_gate], FIRST_CONVOLUTION}
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])
    alone = [{**values, "data": values["data"][at : at + 1].copy()} for at in range(shape[0])]
    assert (
        np.concatenate([forward(ours, each) for each in alone]).tobytes() == forward(ours, values).tobytes()
    )
    assert_same_bits_of_any_threads(lambda: [forward(ours, alone[0])])


def test_what_is_no_number_stays_none() -> None:
    shape = (2, 3, 9, 9)
    for kind in ("hard_swish", "relu", "relu6"):
        plain = net_of(6, (3, 1, 1), kind, True)
        values = values_of(plain, shape)
        values["data"][0, 0, 4, 4] = np.nan
        found = forward(joined_layers.for_answers(plain, {"data": shape}), values)
        assert np.isnan(found[0]).all()
        assert np.isfinite(found[1]).all()


def test_what_is_infinite_is_so_in_the_answer() -> None:
    shape, plain = (2, 3, 9, 9), net_of(6, (3, 1, 1), "relu", False)
    values = values_of(plain, shape)
    values["onednorm_beta"][0] = np.inf
    found = forward(joined_layers.for_answers(plain, {"data": shape}), values)
    right = forward(plain, values)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(right))


@pytest.mark.parametrize(
    "more",
    [
        *(
            {"last": each}
            for each in ({"kernel": (3, 3), "pad": (1, 1)}, {"num_group": 2}, {"no_bias": False})
        ),
        *({"depthwise": each} for each in ({"dilate": (2, 2), "pad": (2, 2)}, {"no_bias": False})),
    ],
)
def test_other_convolutions_stay_mxnets(more: dict[str, Any]) -> None:
    shape, data = (2, 3, 9, 9), layer(mx.sym.var("data", dtype="float32"), "first", 8, "relu6", **FIRST)
    kept = {
        name: {**({"num_group": 20} if name == "depthwise" else {}), **each} for name, each in more.items()
    }
    wide = layer(data, "b", 20, "relu6")
    deep = {"kernel": (3, 3), "pad": (1, 1), "num_group": 20, **kept.get("depthwise", {})}
    plain = layer(layer(wide, "c", 20, "relu6", **deep), "d", 8, None, **kept.get("last", {}))
    plain = mx.sym.Pooling(plain, global_pool=True, pool_type="avg", kernel=(1, 1))
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert not OURS & set(operators(ours))
    assert_close(forward(ours, values), forward(plain, values))


def test_weights_that_are_computed_stay_mxnets() -> None:
    shape, data = (2, 3, 9, 9), layer(mx.sym.var("data", dtype="float32"), "first", 8, "relu", **FIRST)
    weight = mx.sym.var("weight", shape=(8, 1, 3, 3)) * 2
    deep = {"kernel": (3, 3), "pad": (1, 1), "num_group": 8, "weight": weight}
    plain = layer(layer(data, "c", 8, "relu", **deep), "d", 8, None)
    plain = mx.sym.Pooling(plain, global_pool=True, pool_type="avg", kernel=(1, 1))
    ours, values = joined_layers.for_answers(plain, {"data": shape}), values_of(plain, shape)
    assert not OURS & set(operators(ours))
    assert_close(forward(ours, values), forward(plain, values))


def test_few_blocks_between_mxnets_layers_stay_mxnets() -> None:
    data = mx.sym.var("data", dtype="float32")
    made = block(block(data, "one", (8, 24), (3, 1, 1), "relu"), "two", (8, 24), (3, 1, 1), "relu")
    assert not OURS & set(operators(joined_layers.for_answers(made, {"data": (2, 8, 9, 9)})))


def test_a_net_without_wide_channels_stays_mxnets() -> None:
    made = layer(mx.sym.var("data", dtype="float32"), "first", 16, "relu", **FIRST)
    for name in ("one", "two", "three", "four"):
        made = block(made, name, (16, 16), (3, 1, 1), "relu")
    made = mx.sym.Pooling(made, global_pool=True, pool_type="avg", kernel=(1, 1))
    assert not OURS & set(operators(joined_layers.for_answers(made, {"data": (2, 3, 9, 9)})))


def test_without_operators_graphs_stay_mxnets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "OPERATORS", None)
    plain = net_of(8, (3, 1, 1), "relu6", False)
    assert not OURS & set(operators(joined_layers.for_answers(plain, {"data": (2, 3, 9, 9)})))


@pytest.mark.parametrize(("name", "layers"), [("mobilenetv3_small", 36), ("mobilenetv2_0.25", 53)])
def test_weights_are_folded_once_for_pictures_of_any_size(name: str, layers: int) -> None:
    assert len(weights_taken_once(name, CONVOLUTION_WEIGHTS.values(), assert_close)) == layers


def test_nodes_of_one_name_keep_their_weights_apart() -> None:
    """As those of a relu that a net calls several times."""
    data = mx.sym.var("data", dtype="float32")
    made = data
    for name in ("a", "b", "c"):
        conv = mx.sym.Convolution(made, num_filter=64, kernel=(3, 3), pad=(1, 1), no_bias=True, name=name)
        made = mx.sym.relu(mx.sym.BatchNorm(conv, name=f"{name}norm", fix_gamma=False), name="same")
    shape = (1, 64, 9, 9)
    ours, values = joined_layers.for_answers(made, {"data": shape}), values_of(made, shape)
    assert operators(ours).count(CONVOLUTION) == 3
    assert_close(forward(ours, values), forward(made, values))


def test_a_net_that_answers_does_so_on_each_device_by_that_ones_weights_and_trains_as_before() -> None:
    devices = [mx.cpu(0), mx.cpu(1)]
    with build_net.compiling("off"):
        net = zoo.build("mobilenetv3_small", 5)
        net.initialize(mx.init.Xavier(magnitude=12), ctx=devices)
        net.hybridize(static_alloc=True, static_shape=True)
        pictures = [mx.nd.random.normal(shape=(2, 3, 64, 64), ctx=device) for device in devices]
        net(pictures[0])
        last = [each for name, each in net.collect_params().items() if name.endswith("weight")][-1]
        last.data(devices[1])[:] += 1  # what copies of a net that trains never are: different
        right = [net(data).asnumpy() for data in pictures]
        before = _gradient(net, pictures[0], last)
        assert before.any() and np.abs(right[0] - right[1]).max() > np.abs(right[0]).max()
        assert answers.answer_by(net)
        for _ in range(2):  # the second time by what the first has looked up
            for data, expected in zip(pictures, right):
                assert_close(net(data).asnumpy(), expected)
        assert _gradient(net, pictures[0], last).tobytes() == before.tobytes()


def _gradient(net: Any, data: Any, parameter: Any) -> Any:
    with mx.autograd.record(train_mode=False):
        loss = net(data).square().sum()
    loss.backward()
    return parameter.grad(data.context).asnumpy()
