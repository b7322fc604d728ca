"""Evaluations in training answer as `evaluate` does: to the same bits however a net is held, by the weights of now."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.config.flags import from_python
from mxtrain.models import answers, fallbacks
from mxtrain.models.parameters import weights
from mxtrain.models.rewrites import joined_layers
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import BLOCK, CONVOLUTION
from mxtrain.train.context import TrainContext
from mxtrain.train.held import choice
from mxtrain.train.net import build_net
from tests.support.breadth import slow_cases
from tests.support.nets import training_steps
from tests.support.nets.held_steps import net_job, steps
from tests.support.nets.joined_nets import DENSE, LAST_CHANNELS, ONEDNN
from tests.support.nets.mobile_net import QUICK_MOBILE
from tests.support.nets.symbols import operators

JOINED = "_sg_mkldnn_conv"
REMAT, STAGES, HELD = WAYS = ("--remat", "--stages 2 --devices cpu:0,1", "--hold layers")


def trained(flags: str = "", net: str = QUICK_MOBILE, num_steps: int = 2) -> TrainContext:
    context = choice.context_of(net_job(f"--micro-batch 4 {flags}", net))
    list(steps(context, num_steps))
    return context


def data_of(context: TrainContext, count: int = 5) -> Any:
    draw = np.random.default_rng(7)
    size = int(context.run.data.image_size)
    return mx.nd.array(draw.standard_normal((count, 3, size, size)))


def answers_of(context: TrainContext, counts: tuple[int, ...] = (5, 1, 5)) -> list[bytes]:
    """Return what the net answers in an evaluation, on each of the context's devices."""
    with standing_still(context):
        return [
            context.net(data_of(context, count).as_in_context(device)).asnumpy().tobytes()
            for count in counts
            for device in context.devices
        ]


def standing_still(context: TrainContext) -> Any:
    return build_net.standing_still(context.net, context.run, context.task.objects)


def joined_operators(context: TrainContext) -> set[str]:
    found = answers.symbols_of(context.net)
    assert found is not None
    return set(operators(found.whole))


@pytest.mark.parametrize(
    ("net", "operator"),
    [
        (QUICK_MOBILE, BLOCK[True, False]),
        (LAST_CHANNELS, CONVOLUTION),
        *slow_cases((ONEDNN, JOINED), (DENSE, CONVOLUTION)),
        *(
            pytest.param(f"{net} --image-size 64", operator, marks=pytest.mark.slow)
            for net, operator in (
                ("mobilenetv2_0.25", BLOCK[True, False]),
                ("mobilenetv3_small", BLOCK[True, True]),
                ("resnet18_v1", CONVOLUTION),
                ("resnet50_v1", CONVOLUTION),
            )
        ),
        pytest.param("densenet121 --image-size 224", CONVOLUTION, marks=pytest.mark.slow),
    ],
)
def test_the_bits_are_those_of_any_way_to_hold_the_net(net: str, operator: str) -> None:
    model, *flags = net.split(maxsplit=1)
    # Steps in stages have other last bits where parts begin with norms.
    num_steps = 0 if flags or model == DENSE else 2
    whole = trained(*flags, net=model, num_steps=num_steps)
    expected, live = answers_of(whole), whole.net(data_of(whole)).asnumpy().tobytes()
    assert expected[0] == expected[2] != live
    assert native.OPERATORS is None or operator in joined_operators(whole)
    for way in WAYS:
        other = trained(" ".join((*flags, way)), model, num_steps)
        assert answers_of(other) == expected, way
        assert other.net(data_of(whole)).asnumpy().tobytes() == live, way
    several = trained(" ".join((*flags, "--devices cpu:0,1,2")), model, 0)
    _copy_weights(whole, several)
    assert answers_of(several, (5, 1)) == [expected[0]] * 3 + [expected[1]] * 3


def _copy_weights(whole: TrainContext, other: TrainContext) -> None:
    named = training_steps.arrays(whole)
    for name, parameter in weights.named_parameters(other.net).items():
        parameter.set_data(mx.nd.array(named[name]))


@pytest.mark.parametrize("way", ["", *WAYS])
def test_an_evaluation_is_by_the_weights_of_now_and_moves_nothing(way: str) -> None:
    context, undisturbed = trained(way, LAST_CHANNELS, 1), trained(way, LAST_CHANNELS, 3)
    before = answers_of(context)
    list(steps(context, 2, first=1))
    after = answers_of(context)
    assert after[0] != before[0] and after == answers_of(undisturbed)


@pytest.mark.parametrize("way", ["", REMAT, STAGES])
def test_what_an_evaluation_has_compiled_is_gone_behind_it(way: str) -> None:
    context = trained(way)
    data = data_of(context)
    live, compiled = context.net(data).asnumpy().tobytes(), _num_compiled()
    with pytest.raises(KeyboardInterrupt), standing_still(context):
        assert context.net(data).asnumpy().tobytes() != live and _num_compiled() > compiled
        raise KeyboardInterrupt
    assert _num_compiled() == compiled and context.net(data).asnumpy().tobytes() == live


def _num_compiled() -> int:
    gc.collect()
    return sum(isinstance(each, mx.nd.CachedOp) for each in gc.get_objects())


@pytest.mark.parametrize("way", ["", REMAT, STAGES])
def test_what_records_gradients_is_by_the_graph_of_training_meanwhile(way: str) -> None:
    context = trained(way, num_steps=0)

    def output() -> bytes:
        with mx.autograd.record(train_mode=False):
            return bytes(context.net(data_of(context)).asnumpy().tobytes())

    outside = output()
    with standing_still(context):
        assert output() == outside != answers_of(context)[0]


def test_the_net_of_a_program_is_evaluated_by_its_own_graph() -> None:
    """As `evaluate` does, which gives the program's block back as it was."""
    context = trained(num_steps=0)
    data = data_of(context)
    live = context.net(data).asnumpy().tobytes()
    run, objects = from_python.with_objects(context.run, {"model": context.net})
    with build_net.standing_still(context.net, run, objects):
        assert context.net(data).asnumpy().tobytes() == live
    assert answers_of(context)[0] != live


def test_a_net_that_is_no_graph_is_evaluated_as_it_is() -> None:
    context = trained(net="tests.support.nets.user_net:imperative_net", num_steps=0)
    assert answers_of(context)[0] == context.net(data_of(context)).asnumpy().tobytes()


def with_impossible_sum(graph: Any, shapes: Any) -> Any:
    """Add what MXNet knows to fit no output before it computes that."""
    zeros = {"op": "_zeros", "name": "zeros", "attrs": {"shape": "(3, 1237)"}, "inputs": []}
    place, inputs = len(graph["nodes"]), [*graph["heads"], [len(graph["nodes"]), 0, 0]]
    total = {"op": "elemwise_add", "name": "total", "attrs": {}, "inputs": inputs}
    return {**graph, "nodes": [*graph["nodes"], zeros, total], "heads": [[place + 1, 0, 0]]}


def with_impossible_root(graph: Any, shapes: Any) -> Any:
    """Add what MXNet finds out only when it computes that."""
    place, head = len(graph["nodes"]), graph["heads"][0]
    added = [
        {"op": "_zeros", "name": "zeros", "attrs": {"shape": "(1, 2, 2)", "dtype": "float32"}, "inputs": []},
        {"op": "_linalg_potrf", "name": "root", "attrs": {}, "inputs": [[place, 0, 0]]},
        {"op": "sum", "name": "sum", "attrs": {}, "inputs": [[place + 1, 0, 0]]},
        {"op": "broadcast_add", "name": "total", "attrs": {}, "inputs": [head, [place + 2, 0, 0]]},
    ]
    return {**graph, "nodes": [*graph["nodes"], *added], "heads": [[place + 3, 0, 0]]}


def without_a_graph(graph: Any, shapes: Any) -> Any:
    raise mx.base.MXNetError("Check failed: no such layer")


def with_an_error(graph: Any, shapes: Any) -> Any:
    raise KeyError("no such node")


FAILING = (with_impossible_sum, with_impossible_root, without_a_graph, with_an_error)


# How it fails does not depend on how the net is held.
@pytest.mark.parametrize(
    ("way", "failing"),
    [
        *(("", failing) for failing in FAILING),
        *((way, with_impossible_sum) for way in WAYS),
        *slow_cases(*((way, failing) for way in WAYS for failing in FAILING[1:])),
    ],
)
def test_a_graph_to_answer_by_that_fails_leaves_answers_to_the_net_as_it_is(
    way: str, failing: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joined_layers, "OWN_LAYERS", (*joined_layers.OWN_LAYERS, failing))
    with pytest.raises(fallbacks.FallbackRefused):
        answers_of(trained(way, num_steps=0), (5,))
    monkeypatch.delenv(fallbacks.REFUSED)
    context = trained(way, num_steps=0)
    live = context.net(data_of(context)).asnumpy().tobytes()
    assert [answers_of(context, (5, 5)) for _ in range(2)] == [[live] * 2 * len(context.devices)] * 2
    assert caplog.messages and all("please report it" in line for line in caplog.messages)
    is_made = failing in (with_impossible_sum, with_impossible_root)
    assert is_made or len(caplog.messages) == 1, "it is tried once"
