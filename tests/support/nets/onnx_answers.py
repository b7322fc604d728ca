"""Graphs of MXNet computed by MXNet and, as ONNX, by onnxruntime."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.onnx import onnx_graph
from mxtrain.runtime import mx

Values = Mapping[str, Array]


def graph_of(symbol: Any, inputs: Mapping[str, tuple[int, ...]], weights: Values) -> InferenceGraph:
    """The graph of a symbol, some of whose variables are inputs of these shapes of a sample."""
    arrays = {name: mx.nd.array(value, dtype="float32") for name, value in weights.items()}
    arguments = {name: arrays[name] for name in symbol.list_arguments() if name in arrays}
    auxiliaries = {name: arrays[name] for name in symbol.list_auxiliary_states()}
    _, shapes, _ = symbol.infer_shape(**{name: (1, *shape) for name, shape in inputs.items()})
    outputs = {name: shape[1:] for name, shape in zip(symbol.list_outputs(), shapes)}
    return InferenceGraph("own", symbol, arguments, auxiliaries, dict(inputs), outputs)


def of_mxnet(graph: InferenceGraph, values: Values) -> list[Array]:
    given = {name: mx.nd.array(value, dtype=value.dtype) for name, value in values.items()}
    bound = graph.symbol.bind(
        mx.cpu(), {**graph.arguments, **given}, aux_states=graph.auxiliaries, grad_req="null"
    )
    return [each.asnumpy() for each in bound.forward(is_train=False)]


def of_onnx(graph: InferenceGraph, values: Values, batch: int | None) -> list[Array]:
    import onnx
    import onnxruntime

    model = onnx_graph.convert(graph, batch)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[Array] = session.run(None, dict(values))
    return found


def assert_agreement(graph: InferenceGraph, values: Values) -> None:
    """ONNX answers as MXNet, written for this number of samples and for any."""
    count = len(next(iter(values.values())))
    expected = of_mxnet(graph, values)
    for batch in (count, None):
        for ours, theirs in zip(expected, of_onnx(graph, values, batch)):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-5, err_msg=f"batch {batch}")
