"""A BatchNorm and its ReLU as one operator compute what the two do, to the bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.system import kernels
from mxtrain.models import chosen_rewrites
from mxtrain.models.autocast import autocast
from mxtrain.models.rewrites import graph_rewrites, joined_layers, norm_relus
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from tests.support.amp import needs_bf16
from tests.support.nets.symbols import answered, operators
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    SIZE,
    arrays,
    assert_equal,
    context_of_run,
    train,
)
from tests.support.processes.fresh_python import answer

JOINED = "_contrib_BatchNormWithReLU"
SHAPE = (2, 32, 7, 5)
LIMIT = 0.5  # as ReLU6 has 6


def in_float32(symbol: Any) -> Any:
    return symbol


def in_bfloat16(symbol: Any) -> Any:
    """Return the graph with all operators in bfloat16."""
    graph = json.loads(symbol.tojson())
    operators = {place for place, node in enumerate(graph["nodes"]) if node["op"] != "null"}
    return mx.sym.load_json(json.dumps(autocast.with_casts(graph, operators)))


def rewritten(symbol: Any, shape: tuple[int, ...] = SHAPE) -> Any:
    return graph_rewrites.rewritten(symbol, {"x": shape}, [norm_relus.with_joined_relus])


def norm(data: Any = None, **attributes: Any) -> Any:
    return mx.sym.BatchNorm(mx.sym.var("x") if data is None else data, name="norm", **attributes)


def relu(data: Any) -> Any:
    return mx.sym.Activation(data, act_type="relu", name="relu")


def all_computed(symbol: Any, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Return the outputs in training and after it, all gradients, and the running statistics."""
    draw = np.random.RandomState(1)
    shapes, _, states = symbol.infer_shape(x=shape)
    values = {
        name: mx.nd.array(draw.normal(size=each)) for name, each in zip(symbol.list_arguments(), shapes)
    }
    gradients = {name: mx.nd.zeros(value.shape) for name, value in values.items()}
    running = [mx.nd.array(draw.uniform(0.5, 2, each)) for each in states]
    bound = symbol.bind(mx.cpu(), values, args_grad=gradients, aux_states=running)
    (trained,) = bound.forward(is_train=True)
    first = trained.asnumpy()
    bound.backward(mx.nd.array(draw.normal(size=first.shape)))
    mx.nd.waitall()
    (after,) = bound.forward(is_train=False)
    return [first, after.asnumpy(), *(each.asnumpy() for each in [*gradients.values(), *running])]


def limited(data: Any) -> Any:
    return mx.sym.clip(data, 0, LIMIT, name="relu")


@pytest.mark.parametrize(
    ("activation", "of_type"),
    [(relu, in_float32), (limited, in_float32), pytest.param(relu, in_bfloat16, marks=needs_bf16)],
)
@pytest.mark.parametrize("fix_gamma", [False, True])
@pytest.mark.parametrize("use_global_stats", [False, True])
@pytest.mark.parametrize("channels", [16, 48])
def test_everything_is_the_same_to_the_bit(
    fix_gamma: bool, use_global_stats: bool, channels: int, activation: Any, of_type: Any
) -> None:
    x = mx.sym.Convolution(mx.sym.var("x"), kernel=(1, 1), num_filter=channels, name="first")
    x = activation(norm(x, fix_gamma=fix_gamma, use_global_stats=use_global_stats, eps=1e-4, momentum=0.8))
    symbol = of_type(mx.sym.Convolution(x, kernel=(3, 3), num_filter=16, name="second"))
    joined = rewritten(symbol)
    if of_type is in_bfloat16 and kernels.onednn() == kernels.AMX:
        assert operators(joined) == operators(symbol), "whose backward pass no kernel would compute"
        return
    assert JOINED in operators(joined) and not {"BatchNorm", "Activation", "clip"} & {*operators(joined)}
    assert joined.list_inputs() == symbol.list_inputs()
    assert joined.list_auxiliary_states() == symbol.list_auxiliary_states()
    for ours, right in zip(all_computed(joined, SHAPE), all_computed(symbol, SHAPE)):
        np.testing.assert_array_equal(ours, right)


def test_outputs_keep_their_names() -> None:
    end = limited(norm())
    joined = rewritten(end)
    assert joined.list_outputs() == end.list_outputs() == ["relu_output"] and JOINED in operators(joined)


def convolution(data: Any, channels: int, name: str, **attributes: Any) -> Any:
    return mx.sym.Convolution(data, num_filter=channels, name=name, **{"kernel": (1, 1), **attributes})


def pooled(data: Any) -> Any:
    return mx.sym.Pooling(data, kernel=(1, 1), global_pool=True, pool_type="avg")


X = mx.sym.var("x")


@pytest.mark.parametrize(
    "symbol",
    [
        pooled(relu(norm(convolution(X, 16, "first")))),
        convolution(pooled(relu(norm(convolution(X, 16, "first")))), 16, "second"),
        convolution(relu(norm(convolution(X, 16, "first"))), 24, "second"),
        convolution(relu(norm(convolution(X, 24, "first"))), 16, "second"),
        convolution(relu(norm(convolution(X, 16, "first"))), 16, "second", num_group=4),
        convolution(relu(norm(convolution(X, 32, "first", num_group=4))), 16, "second"),
        convolution(relu(norm(convolution(X, 16, "first") * 2)), 16, "second"),
        *(
            convolution(relu(norm(convolution(X, 16, "first", **sizes))), 16, "second")
            for sizes in (
                {"kernel": (3, 3), "pad": (4, 4), "dilate": (4, 4)},
                {"kernel": (9, 9), "pad": (4, 4)},
                {"kernel": (3, 3), "pad": (3, 3)},
                {"kernel": (7, 7), "pad": (3, 3), "stride": (4, 4)},
            )
        ),
        convolution(relu(norm(X)), 16, "second"),
        relu(norm(convolution(X, 16, "first"))),
        mx.sym.Group(
            [norm_relu := relu(norm(convolution(X, 16, "first"))), convolution(norm_relu, 16, "second")]
        ),
    ],
)
def test_what_gets_data_and_gradient_in_different_orders_stays(symbol: Any) -> None:
    """oneDNN and MXNet go back through the joined operator not at all, or by the wrong places of the ReLU."""
    assert rewritten(symbol) is symbol


@pytest.mark.parametrize(
    ("symbol", "shape"),
    [
        (mx.sym.Activation(norm(), act_type="sigmoid"), SHAPE),
        (mx.sym.clip(norm(), -1, 6), SHAPE),
        (relu(norm(axis=3)), SHAPE),
        (relu(norm(output_mean_var=True)[0]), SHAPE),
        (relu(norm()), (2, 24)),
        (relu(norm()), (2, 24, 7)),
        (relu(norm()), (2, 24, 3, 3, 3)),
        (relu(norm(gamma=mx.sym.var("gamma", dtype="float64"))), SHAPE),
    ],
)
def test_others_stay(symbol: Any, shape: tuple[int, ...]) -> None:
    assert rewritten(symbol, shape) is symbol


def test_what_others_take_before_the_relu_stays() -> None:
    normed = norm()
    for symbol in (relu(normed) + normed, mx.sym.Group([relu(normed), normed])):
        assert rewritten(symbol) is symbol


def context_of(flags: str = "") -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model small_cnn {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


def test_a_net_learns_along_the_same_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = context_of()
    others = tuple(
        each for each in chosen_rewrites.AFTER_NARROWING if each is not norm_relus.with_joined_relus
    )
    assert len(others) == len(chosen_rewrites.AFTER_NARROWING) - 1
    monkeypatch.setattr(chosen_rewrites, "AFTER_NARROWING", others)
    plain = context_of()
    assert JOINED in operators(joined.net._cached_graph[1])
    assert JOINED not in operators(plain.net._cached_graph[1])
    ours = train(joined, 3)
    assert ours == train(plain, 3) and ours[-1] != ours[0]
    assert_equal(arrays(joined), arrays(plain))


def test_a_relu6_keeps_three_arrays() -> None:
    """The convolution's output, its norm after the ReLU, and the minimum; MXNet's own copies would be four more."""
    arrays_of_a_block = answer(
        """
from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites import graph_rewrites, joined_layers, norm_relus
from mxtrain.runtime import mx

SHAPE, BLOCKS = (4, 32, 96, 96), 8
symbol = mx.sym.var("x")
for _ in range(BLOCKS):
    symbol = mx.sym.Convolution(symbol, kernel=(1, 1), num_filter=SHAPE[1], no_bias=True)
    symbol = mx.sym.clip(mx.sym.BatchNorm(symbol, fix_gamma=False), 0, 6)
x = mx.nd.ones(SHAPE)
rewritten = graph_rewrites.rewritten(symbol, {"x": SHAPE}, [norm_relus.with_joined_relus])
shapes, _, states = rewritten.infer_shape(x=SHAPE)
given = dict(zip(rewritten.list_arguments(), shapes)), dict(zip(rewritten.list_auxiliary_states(), states))
inputs = [x if name == "x" else mx.nd.ones({**given[0], **given[1]}[name]) for name in rewritten.list_inputs()]
for each in inputs:
    each.attach_grad()
run = mx.nd.CachedOp(rewritten, [("static_alloc", True), ("static_shape", True)])
mx.nd.waitall()

def resident():  # a static graph keeps its arrays; the peak that Linux tells begins with that of whoever started this
    return 4096 * int(open("/proc/self/statm").read().split()[1])

before = resident()
for _ in range(2):
    with mx.autograd.record():
        output = run(*inputs)
    output.backward()
    mx.nd.waitall()
answer = (resident() - before) / (4 * x.size) / BLOCKS
"""
    )
    assert 2 < arrays_of_a_block < 4.5


def test_answers_take_a_norm_that_no_convolution_holds_with_its_relu() -> None:
    before = relu(norm(fix_gamma=False))
    for plain, is_exact in ((before, True), (mx.sym.Convolution(before, num_filter=8, kernel=(1, 1)), False)):
        found = joined_layers.for_answers(plain, {"x": SHAPE})
        assert JOINED in operators(found) and not {"BatchNorm", "Activation"} & set(operators(found))
        tolerance = 0.0 if is_exact else 1e-5
        for ours, theirs in zip(answered(found, plain, SHAPE), answered(plain, plain, SHAPE)):
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_answers_keep_a_norm_that_others_take_or_that_is_no_pictures() -> None:
    twice = norm()
    for plain, shape in (
        (relu(twice) + twice, SHAPE),
        (mx.sym.Group([relu(twice), twice]), SHAPE),
        (relu(norm(axis=2)), SHAPE),
        (relu(norm()), SHAPE[:2]),
    ):
        assert JOINED not in operators(joined_layers.for_answers(plain, {"x": shape}))
