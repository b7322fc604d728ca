"""The plain graph of a trained net, and exports compared with the net on real samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array
from mxtrain.export import comparison, inference_graph, real_samples
from mxtrain.inference import trained_run
from mxtrain.models.nets.sparse import SparseEmbedding
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from tests.support.nets import user_net


def bound(graph: inference_graph.InferenceGraph, scale: float = 1.0) -> comparison.Answer:
    """The answers of the graph, as Gluon computes it from symbol and weights, times `scale`."""
    block = mx.gluon.SymbolBlock(graph.symbol, list(map(mx.sym.var, graph.inputs)))
    for name, parameter in block.collect_params().items():
        parameter._load_init({**graph.arguments, **graph.auxiliaries}[name], mx.cpu())

    def answer(batch: real_samples.Batch) -> list[Array]:
        return [scale * block(*map(mx.nd.array, batch.values())).asnumpy()]

    return answer


def test_the_graph_of_a_checkpoint_answers_as_its_net(trained_digits: Path) -> None:
    found = trained_run.find_checkpoint(trained_digits, "best", "cpu")
    run = trained_run.run_of(found, {})
    task = trained_run.task_of(found, run)
    with inference_graph.of_checkpoint(found, run, task) as (net, graph):
        assert graph.inputs == {"data": (3, 32, 32)}
        assert list(graph.outputs.values()) == [(10,)]
        assert {array.dtype for array in graph.arguments.values()} == {np.float32}
        batches = real_samples.read(net, graph, task, real_samples.open_records(task), count=20)
        assert [len(batch["data"]) for batch in batches] == [16, 4]
        same = comparison.compare(net, graph, bound(graph), batches)
        assert (same.samples, same.same_top1) == (20, 1.0)
        assert same.relative < 1e-6
        comparison.refuse_beyond(1e-6, same, "symbol", graph)
        other = comparison.compare(net, graph, bound(graph, 1.01), batches)
        assert other.relative == pytest.approx(0.01, rel=0.01)
        with pytest.raises(
            DataError, match="symbol export of --model small_cnn does not answer as the net does"
        ):
            comparison.refuse_beyond(1e-3, other, "symbol", graph)


def task_of(model: str, channels: int = 3) -> Classification:
    run = config.parse(["--model", model, "--image-size", "16", "--channels", str(channels)])
    return Classification.numbered(run, 2)


def made(net: Any) -> Any:
    net.initialize()
    net(mx.nd.zeros((1, 3, 16, 16)))
    return net


def test_a_net_that_asks_for_numbers_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match=r"--model own:net: cannot be traced into a graph.*HybridBlock"):
        inference_graph.of_net(made(user_net.imperative_net(2)), task_of("own:net"))


class OfIds(mx.gluon.Block):  # type: ignore[misc]
    """A Block that can be traced all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = SparseEmbedding(10, 4), mx.gluon.nn.Dense(2)

    def forward(self, ids: Any) -> Any:
        return self.head(self.table(ids))


def test_a_sparse_table_is_traced_as_an_embedding() -> None:
    net, ids = OfIds(), mx.nd.array([[1, 2], [9, 0]])
    net.initialize()
    expected = net(ids).asnumpy()
    symbol = inference_graph.traced(net, "--model own:net", ["data"])
    values = {each.name: each.data() for each in weights.named_parameters(net).values()}
    (found,) = symbol.bind(mx.cpu(), {"data": ids, **values}, grad_req="null").forward()
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


def test_prelu_is_one_node_of_the_graph() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.PReLU(), mx.gluon.nn.Dense(2))
    graph = inference_graph.of_net(made(net), task_of("own:net"))
    assert graph.symbol.tojson().count('"op": "LeakyReLU"') == 1
