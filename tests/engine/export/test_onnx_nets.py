"""Nets of every task as ONNX: they answer as MXNet does, for one sample and for any number."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components import nets
from mxtrain.export import inference_graph
from mxtrain.models.nets.gpt import Gpt
from mxtrain.models.parameters import initializers
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from tests.support.nets.onnx_answers import Values, assert_agreement, graph_of

pytest.importorskip("onnxruntime")

STEPS, COLUMNS, WORDS = 8, 3, 20
SERIES = {"x": (STEPS, COLUMNS), "x_mask": (STEPS,)}
TEXT = {"tokens": (STEPS,), "mask": (STEPS,)}


def traced(net: Any, inputs: Mapping[str, tuple[int, ...]], values: Values) -> Any:
    """The graph of a net with random weights."""
    net.initialize(mx.init.Normal(0.3))
    net(*map(mx.nd.array, values.values()))
    rng = np.random.default_rng(0)
    known = {
        name: rng.uniform(0.5, 1.5, each.shape) if "running" in name else each.data().asnumpy()
        for name, each in net.collect_params().items()
    }
    return graph_of(net(*map(mx.sym.var, inputs)), inputs, known)


def masked(samples: int) -> Any:
    """Lengths from 3 on."""
    return (np.arange(STEPS) < 3 + np.arange(samples)[:, None]).astype(np.float32)


def drawn(inputs: Mapping[str, tuple[int, ...]], samples: int) -> Values:
    rng = np.random.default_rng(1)
    found = {name: rng.normal(0, 1, (samples, *shape)).astype(np.float32) for name, shape in inputs.items()}
    for name in found:
        if name.endswith("mask"):
            found[name] = masked(samples)
        elif name == "tokens":
            found[name] = rng.integers(0, WORDS, (samples, STEPS)).astype(np.float32)
    return found


@pytest.mark.parametrize("name", ["mlp:hidden=8/4,norm=1", "conv1d:channels=4/6", "lstm:hidden=4,layers=2"])
@pytest.mark.parametrize("varies", [False, True])
def test_nets_of_arrays(name: str, varies: bool) -> None:
    if varies and name.startswith("mlp"):
        pytest.skip("takes arrays of fixed shapes")
    inputs = SERIES if varies else {"x": (STEPS, COLUMNS), "y": (5,)}
    values = drawn(inputs, 3)
    assert_agreement(traced(nets.build(name, inputs=inputs, outputs=2), inputs, values), values)


@pytest.mark.parametrize(
    "name", ["text_cnn:width=6", "bilstm:width=6,hidden=4,layers=2", "transformer:width=8,heads=2,layers=1"]
)
@pytest.mark.parametrize("of_tokens", [False, True])
def test_nets_of_texts(name: str, of_tokens: bool) -> None:
    values = drawn(TEXT, 3)
    net = nets.build(name, vocabulary=WORDS, num_classes=4, length=STEPS, of_tokens=of_tokens)
    assert_agreement(traced(net, TEXT, values), values)


def test_language_models() -> None:
    inputs = {"tokens": (STEPS,)}
    values = drawn(inputs, 3)
    end = values["tokens"][0, 4]  # a document ends inside
    assert_agreement(traced(Gpt(WORDS, STEPS, end, layers=2, heads=2, width=8), inputs, values), values)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("both", [False, True])
def test_recurrent_layers(kind: str, both: bool) -> None:
    settings: dict[str, Any] = {"layout": "NTC", "bidirectional": both, "num_layers": 2}
    if kind == "RNN":
        settings["activation"] = "tanh"
    net = mx.gluon.nn.HybridSequential()
    net.add(getattr(mx.gluon.rnn, kind)(4, **settings), mx.gluon.nn.Dense(2))
    values = drawn({"x": (STEPS, COLUMNS)}, 3)
    assert_agreement(traced(net, {"x": (STEPS, COLUMNS)}, values), values)


def test_many_recurrent_layers() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.rnn.LSTM(3, layout="NTC", num_layers=12), mx.gluon.nn.Dense(2))
    values = drawn({"x": (STEPS, COLUMNS)}, 3)
    assert_agreement(traced(net, {"x": (STEPS, COLUMNS)}, values), values)


# All families: benchmarks/exporting.py.
@pytest.mark.parametrize(
    "name", ["mobilenetv3_small", pytest.param("se_resnet18_v1", marks=pytest.mark.slow)]
)
def test_classifiers_of_gluoncv(name: str) -> None:
    run = config.parse(["--model", name, "--image-size", "32"])
    task = Classification.numbered(run, 5)
    net = task.build_net()
    initializers.initialize(net, "xavier", [mx.cpu()], 0)
    values = {"data": np.random.default_rng(0).normal(0, 1, (2, 3, 32, 32)).astype(np.float32)}
    net(mx.nd.array(values["data"]))
    assert_agreement(inference_graph.of_net(net, task), values)
