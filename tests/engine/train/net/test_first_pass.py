"""A net whose rewritten graph cannot be computed trains by its graph as it is, to the bit."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites.graph_rewrites import AddNode, Graph, Inputs, Shapes, with_replaced
from mxtrain.train.context import TrainContext
from mxtrain.train.net import build_net
from tests.support.amp import needs_bf16
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

LINE = "the net's graph as rewritten for speed cannot be computed (Check failed: ret == 0"


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


def context_of(flags: str) -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {QUICK_NET} {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


@pytest.mark.parametrize("place", ["AFTER_NARROWING", "TRAINING_REWRITES"])
@pytest.mark.parametrize(
    "flags", ["", "--devices cpu:0,1", pytest.param("--amp bf16", marks=needs_bf16), "--sums fast"]
)
def test_a_graph_that_fails_is_replaced_by_the_plain_one(
    flags: str, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(chosen_rewrites, "AFTER_NARROWING", ())
    monkeypatch.setattr(chosen_rewrites, "TRAINING_REWRITES", ())
    plain = context_of(flags)
    monkeypatch.setattr(chosen_rewrites, place, (with_impossible_sum,))
    with caplog.at_level(logging.WARNING):
        failing = context_of(flags)
        losses = train(failing, 2)
    assert [record.getMessage().startswith(LINE) for record in caplog.records] == [True], caplog.text
    assert losses == train(plain, 2)
    assert_equal(arrays(failing), arrays(plain))


def test_in_segments_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_rewrites, "TRAINING_REWRITES", (with_impossible_sum,))
    refusal = r"--remat: a segment of the net cannot be computed \(.*\); leave it out"
    with build_net.compiling("off"), pytest.raises(UsageError, match=refusal):
        train(context_of("--remat"), 1)
