"""Joining an LSTM's weights by rows changes no bit of its output and its gradients."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain.models.rewrites import graph_rewrites, rnn_weights
from mxtrain.runtime import mx

LENGTH, BATCH, INPUTS = 5, 3, 24
rnn = mx.gluon.rnn
LAYERS = {
    "two-layer LSTM": lambda: rnn.LSTM(16, num_layers=2, input_size=INPUTS),
    "GRU both ways": lambda: rnn.GRU(16, bidirectional=True, input_size=INPUTS),
    "RNN": lambda: rnn.RNN(32, input_size=INPUTS),
    "LSTM of short rows": lambda: rnn.LSTM(3, input_size=INPUTS),
}


def trained_once(layer: str, rewrites: list[Any]) -> tuple[list[np.ndarray], list[str]]:
    """Return output and gradients of one step, and the operators of the graph that computed it."""
    mx.random.seed(2)
    net = mx.gluon.nn.HybridSequential()
    net.add(LAYERS[layer]())
    net.initialize(mx.init.Xavier())
    data = mx.nd.random.normal(shape=(LENGTH, BATCH, INPUTS))
    net.hybridize(static_alloc=True, static_shape=True)
    with graph_rewrites.rewriting(rewrites), mx.autograd.record():
        output = net(data)
    output.backward()
    graph = json.loads(net._cached_graph[1].tojson())
    gradients = [each.grad().asnumpy() for each in net.collect_params().values()]
    return [output.asnumpy(), *gradients], [node["op"] for node in graph["nodes"]]


@pytest.mark.parametrize("layer", LAYERS)
def test_no_bit_changes(layer: str) -> None:
    expected, before = trained_once(layer, [])
    found, after = trained_once(layer, [rnn_weights.with_weights_by_rows])
    assert (after.count("Reshape") > before.count("Reshape")) == (layer != "LSTM of short rows")
    for one, other in zip(expected, found):
        np.testing.assert_array_equal(one, other)
