"""Depthwise convolutions and norms by our operator: MXNet's numbers, the bits of any threads, only where it may be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mxtrain.models import chosen_rewrites, segments
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import graph_rewrites, joined_layers
from mxtrain.models.rewrites.own.channel_runs import (
    inside_runs,
    with_channel_runs,
    with_evaluated_runs,
)
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import DEPTHWISE_NORM, NORM, NORM_DEPTHWISE_NORM
from tests.support.breadth import slow_cases
from tests.support.nets.symbols import operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
OURS = {NORM, DEPTHWISE_NORM, NORM_DEPTHWISE_NORM}
SHAPES = [
    (2, 3, 7, 7),
    (3, 5, 14, 14),
    (2, 9, 13, 11),
    (1, 2, 28, 28),
    (4, 16, 8, 9),
    (2, 4, 1, 5),
    (1, 1, 60, 3),
]
SIZES = [(3, 2, 1), (5, 1, 2), (7, 2, 3), (3, 1, 0)]  # kernel, stride, pad
MORE_SIZES = [(3, 1, 1), (5, 2, 2), (7, 1, 3), (5, 2, 1)]


def activated(data: Any, kind: str) -> Any:
    if kind == "relu":
        return mx.sym.Activation(data, act_type="relu")
    if kind == "relu6":
        return mx.sym.clip(data, 0, 6)
    return data * (mx.sym.clip(data + 3, 0, 6) / 6) if kind == "hard_swish" else data


def norm(data: Any, name: str, **attributes: Any) -> Any:
    return mx.sym.BatchNorm(data, name=name, **{"fix_gamma": False, "eps": 1e-2, **attributes})


def convolution(data: Any, channels: int, sizes: tuple[int, int, int], **attributes: Any) -> Any:
    kernel, stride, pad = sizes
    chosen = {"num_filter": channels, "num_group": channels, "no_bias": True, "name": "c"}
    window = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
    return mx.sym.Convolution(data, **{**window, **chosen, **attributes})


def run(channels: int, sizes: tuple[int, int, int], before: str | None, behind: str, **of_norms: Any) -> Any:
    data = mx.sym.var("data", dtype="float32")
    if before is not None:
        data = activated(norm(data, "before", **of_norms), before)
    return activated(norm(convolution(data, channels, sizes), "behind", **of_norms), behind)


def rewritten(symbol: Any, shape: tuple[int, ...]) -> Any:
    fast = graph_rewrites.rewritten(symbol, {"data": shape}, chosen_rewrites.rewrites(None))
    return graph_rewrites.rewritten(fast, {"data": shape}, [with_channel_runs])


def trained(
    symbol: Any, plain: Any, shape: tuple[int, ...], requirement: Any = "write", has_nan: bool = False
) -> dict[str, Any]:
    """Return the output, the gradients and the running statistics of a step by a graph of `plain`, by names."""
    draw = np.random.default_rng(3)
    shapes, (output_shape,), states = plain.infer_shape(data=shape)
    names, aux = symbol.list_arguments(), symbol.list_auxiliary_states()
    values = {name: mx.nd.array(draw.normal(0.5, 1, size)) for name, size in zip(names, shapes)}
    if has_nan:
        values["data"][0, 0, 3, 3] = np.nan
    running = {name: mx.nd.array(draw.uniform(0.5, 2, size)) for name, size in zip(aux, states)}
    gradients = {name: mx.nd.ones(each.shape) for name, each in values.items()}
    bound = symbol.bind(mx.cpu(), values, gradients, requirement, running)
    (output,) = bound.forward(is_train=True)
    bound.backward(mx.nd.array(draw.normal(size=output_shape)))
    found = {name: each.asnumpy() for name, each in {**gradients, **running}.items()}
    return {**found, "output": output.asnumpy()}


def assert_close(ours: dict[str, Any], right: dict[str, Any]) -> None:
    assert ours.keys() == right.keys()
    for name, value in right.items():
        # A gradient before a norm is small beside what it is a difference of.
        np.testing.assert_allclose(
            ours[name], value, rtol=1e-3, atol=2e-4 * max(1, np.abs(value).max()), err_msg=name
        )


@pytest.mark.parametrize("sizes", [*SIZES, *slow_cases(*((each,) for each in MORE_SIZES))], ids=str)
@pytest.mark.parametrize(
    ("before", "behind"), [("relu6", "relu6"), ("hard_swish", "identity"), (None, "relu")]
)
def test_values_gradients_and_statistics_are_those_of_mxnet(
    sizes: tuple[int, int, int], before: str | None, behind: str
) -> None:
    for shape in SHAPES:
        if min(shape[2:]) + 2 * sizes[2] >= sizes[0]:
            plain = run(shape[1], sizes, before, behind)
            ours = rewritten(plain, shape)
            assert OURS & set(operators(ours)) == {NORM_DEPTHWISE_NORM if before else DEPTHWISE_NORM}
            assert not {"BatchNorm", "Convolution", "clip", "_minimum_scalar"} & set(operators(ours))
            assert_close(trained(ours, plain, shape), trained(plain, plain, shape))


@pytest.mark.parametrize("attributes", [{"fix_gamma": True}, {"momentum": 0.5, "eps": 0.1}], ids=str)
def test_norms_are_as_their_attributes_say(attributes: dict[str, Any]) -> None:
    plain = run(6, (3, 1, 1), "relu", "relu6", **attributes)
    ours = rewritten(plain, (3, 6, 9, 9))
    assert NORM_DEPTHWISE_NORM in operators(ours)
    assert_close(trained(ours, plain, (3, 6, 9, 9)), trained(plain, plain, (3, 6, 9, 9)))


@pytest.mark.parametrize("kind", ["relu6", "hard_swish"])
def test_a_norm_by_itself_is_ours_for_activations_that_onednn_has_not(kind: str) -> None:
    for shape in SHAPES:
        plain = activated(norm(mx.sym.var("data", dtype="float32"), "n"), kind)
        ours = rewritten(plain, shape)
        assert OURS & set(operators(ours)) == {NORM}
        assert_close(trained(ours, plain, shape), trained(plain, plain, shape))
    assert not OURS & set(
        operators(rewritten(activated(norm(mx.sym.var("data"), "n"), "relu"), (2, 16, 5, 5)))
    )


@pytest.mark.parametrize(("before", "behind"), [("hard_swish", "relu"), (None, "hard_swish")])
def test_answers_are_those_of_running_statistics(before: str | None, behind: str) -> None:
    for shape, sizes in itertools.product(SHAPES, SIZES):
        if min(shape[2:]) + 2 * sizes[2] < sizes[0]:
            continue
        plain = run(shape[1], sizes, before, behind)
        joined = joined_layers.for_answers(plain, {"data": shape})
        assert OURS & set(operators(joined))
        draw = np.random.default_rng(1)
        shapes, _, states = plain.infer_shape(data=shape)
        values = {name: draw.normal(0.5, 1, size) for name, size in zip(plain.list_arguments(), shapes)}
        for name, size in zip(plain.list_auxiliary_states(), states):
            values[name] = draw.uniform(0.5, 2, size)
        arrays = {name: mx.nd.array(value) for name, value in values.items()}
        found, right = (
            mx.nd.CachedOp(each, [])(*(arrays[name] for name in each.list_inputs())).asnumpy()
            for each in (joined, plain)
        )
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4 * max(1, np.abs(right).max()))


def test_gradients_are_added_to_and_left_out_as_wished() -> None:
    shape, plain = (2, 8, 6, 6), run(8, (3, 1, 1), "relu6", "relu6")
    ours = rewritten(plain, shape)
    assert_close(trained(ours, plain, shape, "add"), trained(plain, plain, shape, "add"))
    names = plain.list_arguments()
    for left_out in names:
        requirement = {name: "null" if name == left_out else "write" for name in names}
        assert_close(trained(ours, plain, shape, requirement), trained(plain, plain, shape, requirement))


def test_the_bits_are_those_of_any_number_of_threads() -> None:
    shape = (3, 37, 15, 15)
    plain = run(37, (5, 2, 2), "hard_swish", "relu6")
    ours = rewritten(plain, shape)
    assert_same_bits_of_any_threads(lambda: list(trained(ours, plain, shape).values()))


@pytest.mark.parametrize("kind", ["relu", "relu6", "hard_swish"])
def test_what_is_no_number_stays_none(kind: str) -> None:
    shape, plain = (2, 8, 7, 7), run(8, (3, 1, 1), kind, kind)
    found = trained(rewritten(plain, shape), plain, shape, has_nan=True)
    for name in ("output", "data"):
        assert np.isnan(found[name][:, 0]).all()
        assert np.isfinite(found[name][:, 1:]).all()


def test_other_layers_stay_as_they_are() -> None:
    shape, sizes = (2, 16, 12, 12), (3, 1, 1)
    data = mx.sym.var("data", dtype="float32")

    def behind_norm(**attributes: Any) -> Any:
        return norm(convolution(data, 16, sizes, **attributes), "n")

    inner = convolution(data, 16, sizes)
    for symbol in (
        behind_norm(dilate=(2, 2)),
        behind_norm(no_bias=False),
        behind_norm(num_group=8),
        behind_norm(num_group=1),
        behind_norm(num_filter=32),
        behind_norm(kernel=(4, 4)),
        behind_norm(kernel=(3, 5), pad=(1, 2)),
        behind_norm(stride=(3, 3)),
        norm(inner, "n", use_global_stats=True),
        norm(inner, "n", output_mean_var=True)[0],
        norm(inner, "n") + inner,
        mx.sym.Group([norm(inner, "n"), inner]),
        norm(mx.sym.cast(convolution(data.astype("float64"), 16, sizes), "float32"), "n"),
    ):
        assert not OURS & set(operators(rewritten(symbol, shape)))
    assert DEPTHWISE_NORM in operators(rewritten(behind_norm(), shape))


def test_a_norm_whose_relu_is_joined_never_gets_arrays_in_two_orders() -> None:
    """MXNet has no backward pass for it then, or a wrong one: a run that would be added before it stays MXNet's."""
    shape, data = (2, 16, 8, 8), mx.sym.var("data", dtype="float32")
    blocks = mx.sym.Convolution(data, num_filter=16, kernel=(1, 1), name="blocks")
    depthwise = norm(convolution(blocks, 16, (3, 1, 1)), "n")
    added = mx.sym.Activation(norm(depthwise + blocks, "joined"), act_type="relu")
    plain = mx.sym.Convolution(added, num_filter=16, kernel=(1, 1), name="last")
    ours = rewritten(plain, shape)
    assert not OURS & set(operators(ours))
    assert_close(trained(ours, plain, shape), trained(plain, plain, shape))


@pytest.mark.parametrize(
    "model",
    [
        "mobilenetv2_0.25",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("mobilenetv3_large", "xception")),
    ],
)
@pytest.mark.parametrize(
    "frozen",
    [None, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))],
    ids=["none", "all", "every second norm"],
)
def test_no_cut_changes_what_is_a_run(model: str, frozen: int | None) -> None:
    """Nor one of a net whose norms are frozen, which are runs of evaluations alone."""
    shapes: Any = {"data": (2, 3, 139, 139) if model == "xception" else (2, 3, 32, 32)}
    output = zoo.build(model, 5)(mx.sym.var("data"))
    output = graph_rewrites.rewritten(output, shapes, chosen_rewrites.rewrites(None))
    graph, shapes = graph_rewrites.nodes_and_shapes(output, shapes)
    norms = [node for node in graph["nodes"] if "BatchNorm" in node["op"]]
    for norm_of_graph in norms[::frozen] if frozen else []:
        norm_of_graph["attrs"]["use_global_stats"] = "True"
    assert_cuts_keep_runs(graph, shapes)


def test_no_cut_changes_what_is_a_run_beside_norms_with_joined_relus() -> None:
    """As of a run that stays MXNet's for such a norm before it, or behind it, which a part alone would not show."""
    shape, data = (2, 16, 8, 8), mx.sym.var("data", dtype="float32")
    blocks = mx.sym.Convolution(data, num_filter=16, kernel=(1, 1), name="blocks")
    joined = mx.sym.Activation(norm(blocks, "joined"), act_type="relu")
    pooled = mx.sym.Pooling(joined, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pooled")
    behind = activated(norm(convolution(pooled, 16, (3, 1, 1)), "n"), "relu6")
    depthwise = norm(convolution(blocks, 16, (3, 1, 1)), "n")
    larger = mx.sym.Pooling(depthwise, kernel=(2, 2), pool_type="max", name="larger")
    before = mx.sym.Activation(norm(larger, "joined"), act_type="relu")
    for each in (behind, before):
        last = mx.sym.Convolution(each, num_filter=16, kernel=(1, 1), name="last")
        fast = graph_rewrites.rewritten(last, {"data": shape}, chosen_rewrites.rewrites(None))
        assert_cuts_keep_runs(*graph_rewrites.nodes_and_shapes(fast, {"data": shape}))


def assert_cuts_keep_runs(graph: Any, shapes: Any) -> None:
    def names(of: Any, handed_on: Any = ()) -> list[list[str]]:
        of_parts = {**shapes, segments.HANDED_ON: handed_on}
        ours = (with_runs(of, of_parts) for with_runs in (with_channel_runs, with_evaluated_runs))
        return [[node["name"] for node in each["nodes"] if node["op"] in OURS] for each in ours]

    first, (head, *_) = segments.place_of(graph, "data"), graph["heads"]
    passages = segments.passages_of(graph, shapes, first)
    assert passages and inside_runs(graph, shapes).isdisjoint(passages)
    for place in passages:
        parts = segments.between(graph, first, [place, 0, 0]), segments.between(graph, place, head)
        handed_on = graph_rewrites.shape_of(graph, shapes, place, 0)
        for before, behind, whole in zip(names(parts[0]), names(parts[1], handed_on), names(graph)):
            assert before + behind == whole, graph["nodes"][place]["name"]


def test_norms_of_another_axis_are_not_joined_to_convolutions() -> None:
    shape, draw = (2, 8, 8, 8), np.random.default_rng(2)
    plain = norm(mx.sym.Convolution(mx.sym.var("data"), num_filter=8, kernel=(1, 1)), "n", axis=3)
    joined = joined_layers.for_answers(plain, {"data": shape})
    sizes, _, states = plain.infer_shape(data=shape)
    names = [*plain.list_arguments(), *plain.list_auxiliary_states()]
    arrays = {name: mx.nd.array(draw.uniform(0.5, 2, size)) for name, size in zip(names, [*sizes, *states])}
    found, right = (
        mx.nd.CachedOp(each, [])(*(arrays[name] for name in each.list_inputs())).asnumpy()
        for each in (joined, plain)
    )
    np.testing.assert_allclose(found, right, rtol=1e-4)
