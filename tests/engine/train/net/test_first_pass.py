"""A net whose rewritten graph cannot be made or computed trains by its graph as it is, to the bit."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.models import chosen_rewrites, fallbacks
from mxtrain.models.compiled_graphs import OperatorByPurpose
from mxtrain.models.rewrites.graph_rewrites import AddNode, Graph, Inputs, Rewrite, Shapes, with_replaced
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.net import build_net
from tests.support.amp import needs_bf16
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    QUICK_NET,
    SIZE,
    arrays,
    assert_equal,
    context_of_run,
    train,
)

REPORT = "This is a bug of mxtrain: please report it"


def with_impossible_sum(graph: Graph, shapes: Shapes) -> Graph:
    """Add a matrix's root that does not exist, which MXNet notices when it computes that, to the output."""
    (output, *_), *_ = graph["heads"]

    def add_root(node: Any, inputs: Inputs, add: AddNode) -> int:
        zeros = add(
            {"op": "_zeros", "name": "z", "attrs": {"shape": "(1, 2, 2)", "dtype": "float32"}, "inputs": []}
        )
        root = add({"op": "_linalg_potrf", "name": "root", "attrs": {}, "inputs": [[zeros, 0, 0]]})
        total = add({"op": "sum", "name": "total", "attrs": {}, "inputs": [[root, 0, 0]]})
        whole = add({**node, "name": f"{node['name']}_whole", "inputs": inputs})
        both = [[whole, 0, 0], [total, 0, 0]]
        return add({"op": "broadcast_add", "name": node["name"], "attrs": {}, "inputs": both})

    return with_replaced(graph, {output: add_root})


def with_an_error(graph: Graph, shapes: Shapes) -> Graph:
    raise KeyError("no such node")


def with_another_input(graph: Graph, shapes: Shapes) -> Graph:
    """Add something that nobody gives to the output."""
    (output, *_), *_ = graph["heads"]

    def add_other(node: Any, inputs: Inputs, add: AddNode) -> int:
        other = add({"op": "null", "name": "other", "inputs": []})
        whole = add({**node, "name": f"{node['name']}_whole", "inputs": inputs})
        both = [[whole, 0, 0], [other, 0, 0]]
        return add({"op": "broadcast_add", "name": node["name"], "attrs": {}, "inputs": both})

    return with_replaced(graph, {output: add_other})


def with_an_operator_of_nobody(graph: Graph, shapes: Shapes) -> Graph:
    (output, *_), *_ = graph["heads"]
    return with_replaced(
        graph, {output: lambda node, inputs, add: add({**node, "op": "nobodys", "inputs": inputs})}
    )


FAILURES = {
    with_impossible_sum: "cannot be computed (Check failed: ret == 0",
    with_an_error: "(RewriteFailed: with_an_error: KeyError: 'no such node')",
    with_another_input: "(RewriteFailed: what they make: takes other inputs than the graph)",
    with_an_operator_of_nobody: "(RewriteFailed: what they make: MXNetError: ",
}
PURPOSES = ("AFTER_NARROWING", "TRAINING_REWRITES", "JUDGING_REWRITES", "RECORDED_REWRITES")


def context_of(flags: str, net: str = QUICK_NET) -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {net} {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


@pytest.fixture
def falling_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what fails replaced, as for users; nothing else is rewritten."""
    monkeypatch.delenv(fallbacks.REFUSED)
    for place in PURPOSES:
        monkeypatch.setattr(chosen_rewrites, place, ())


@pytest.mark.parametrize("failing", FAILURES)
@pytest.mark.parametrize("place", ["AFTER_NARROWING", "TRAINING_REWRITES"])
@pytest.mark.parametrize(
    "flags",
    ["--devices cpu:0,1", pytest.param("--amp bf16", marks=needs_bf16), *slow_cases("", "--sums fast")],
)
@pytest.mark.usefixtures("falling_back")
def test_a_graph_that_fails_is_replaced_by_the_plain_one(
    flags: str,
    place: str,
    failing: Rewrite,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = context_of(flags)
    monkeypatch.setattr(chosen_rewrites, place, (failing,))
    with caplog.at_level(logging.WARNING):
        found = context_of(flags)
        losses = train(found, 2)
    (line,) = caplog.messages
    assert FAILURES[failing] in line and line.endswith(REPORT)
    assert isinstance(found.net._cached_op, OperatorByPurpose), "compiled, not operator by operator"
    assert losses == train(plain, 2)
    assert_equal(arrays(found), arrays(plain))


@pytest.mark.parametrize("place", ["JUDGING_REWRITES", "RECORDED_REWRITES"])
@pytest.mark.usefixtures("falling_back")
def test_answers_whose_rewrites_fail_are_by_the_plain_graph(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data = mx.nd.random.uniform(shape=(2, 3, SIZE, SIZE))

    def output(context: TrainContext) -> bytes:
        if place == "JUDGING_REWRITES":
            return bytes(context.net(data).asnumpy().tobytes())
        with mx.autograd.record(train_mode=False):
            return bytes(context.net(data).asnumpy().tobytes())

    plain = output(context_of(""))
    monkeypatch.setattr(chosen_rewrites, place, (with_an_error,))
    with caplog.at_level(logging.WARNING):
        found = context_of("")
        assert output(found) == output(found) == plain
    (line,) = caplog.messages
    assert "KeyError" in line and line.endswith(REPORT)


@pytest.mark.usefixtures("falling_back")
def test_a_users_net_whose_graph_fails_is_compiled_nevertheless(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chosen_rewrites, "AFTER_NARROWING", (with_an_error,))
    with caplog.at_level(logging.WARNING):
        found = context_of("", "tests.support.nets.user_net:plain")
    assert len(caplog.messages) == 1 and caplog.messages[0].endswith(REPORT)
    assert isinstance(found.net._cached_op, OperatorByPurpose)


@pytest.mark.usefixtures("falling_back")
def test_a_net_that_mxnet_cannot_compile_is_no_bug_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = context_of("", "tests.support.nets.user_net:imperative_net")
    (line,) = caplog.messages
    assert "runs imperatively" in line and REPORT not in line and found.net._cached_op is None


@pytest.mark.usefixtures("falling_back")
def test_no_graph_is_without_the_rewrites_that_make_it_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_rewrites, "BEFORE_NARROWING", (with_an_error,))
    with pytest.raises(fallbacks.RewriteFailed, match="with_an_error"):
        context_of("")


@pytest.mark.parametrize("failing", FAILURES)
@pytest.mark.parametrize("place", ["AFTER_NARROWING", "TRAINING_REWRITES"])
def test_nothing_is_replaced_in_tests(place: str, failing: Rewrite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_rewrites, place, (failing,))
    with pytest.raises(fallbacks.FallbackRefused, match=REPORT):
        train(context_of(""), 1)


def test_in_segments_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_rewrites, "TRAINING_REWRITES", (with_impossible_sum,))
    refusal = r"--remat: a segment of the net cannot be computed \(.*\); leave it out"
    with build_net.compiling("off"), pytest.raises(UsageError, match=refusal):
        train(context_of("--remat"), 1)
