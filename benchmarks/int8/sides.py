"""The same net in float32, bfloat16 and int8, by MXNet and by onnxruntime: functions from pictures to scores."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.int8.tables import SIDES
from mxtrain.core.system import kernels
from mxtrain.export import comparison, inference_graph, real_samples
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8 import int8_graph
from mxtrain.export.onnx import onnx_export
from mxtrain.export.real_samples import Batch
from mxtrain.inference import trained_run
from mxtrain.runtime import mx
from mxtrain.train.open_data import open_source

Array = npt.NDArray[Any]
Side = Callable[[Array], Array]

FLOAT32, JOINED, BFLOAT16, INT8, ORT, ORT_INT8 = SIDES


@contextlib.contextmanager
def of_run(folder: Path, num_calibrating: int) -> Iterator[tuple[dict[str, Side], Array, Array]]:
    """Yield the sides of a run's net, and the pictures and labels of its --val, or of some of --train without one."""
    found = trained_run.find_checkpoint(folder, "best", "cpu")
    run = trained_run.run_of(found, {})
    task = trained_run.task_of(found, run)
    train = open_source("--train", run.data.train or "", run)
    val = open_source("--val", run.data.val, run) if run.data.val else train
    narrow = dataclasses.replace(run, model=dataclasses.replace(run.model, amp="bf16"))
    with contextlib.ExitStack() as stack:
        net, graph = stack.enter_context(inference_graph.of_checkpoint(found, run, task))
        batches = real_samples.read(net, graph, task, train, num_calibrating, 8)
        shown = real_samples.read(net, graph, task, val, len(val) if run.data.val else 32, 32)
        labels = np.array([val.read(position).label for position in real_samples.spread(val, len(val))])
        sides = {**_of_mxnet(graph, net, batches), **_of_onnxruntime(graph, batches, stack)}
        if kernels.bf16_problem() is None:
            in_bf16, _ = stack.enter_context(trained_run.net_of(found, narrow, "cpu"))
            sides[BFLOAT16] = lambda pictures: in_bf16(mx.nd.array(pictures)).astype("float32").asnumpy()
        yield sides, np.concatenate([each["data"] for each in shown]), labels


def _of_mxnet(graph: InferenceGraph, net: Any, batches: list[Batch]) -> dict[str, Side]:
    answers = [comparison.answer_of_net(net, batch)[0] for batch in batches]
    joined = graph._replace(symbol=graph.symbol.get_backend_symbol("MKLDNN"))
    graphs = {FLOAT32: graph, JOINED: joined, INT8: int8_graph.quantised(graph, answers, batches).graph}
    return {name: _block(each) for name, each in graphs.items()}


def _block(graph: InferenceGraph) -> Side:
    """Return what plain Gluon computes of a graph, compiled as docs/int8.md says."""
    weights = {**graph.arguments, **graph.auxiliaries}
    names = graph.symbol.list_inputs()
    flags = [("static_alloc", True), ("static_shape", True)]
    places = [number for number, name in enumerate(names) if name in graph.inputs]
    others = [number for number in range(len(names)) if number not in places]
    compute = mx.nd.CachedOp(graph.symbol, [("data_indices", places), ("param_indices", others), *flags])

    def answer(pictures: Array) -> Array:
        given = {**weights, "data": mx.nd.array(pictures)}
        found: Array = compute(*(given[name] for name in names)).asnumpy()
        return found

    return answer


def _of_onnxruntime(
    graph: InferenceGraph, batches: list[Batch], stack: contextlib.ExitStack
) -> dict[str, Side]:
    """Return what onnxruntime computes: of our ONNX, and of that in int8, made by its own tool on the same samples."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    onnx_export.write(graph, folder, None, {})
    model, prepared, whole = (
        str(folder / name) for name in (onnx_export.MODEL, "prepared.onnx", "int8.onnx")
    )
    quant_pre_process(model, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared,
        whole,
        _reader(quantization.CalibrationDataReader, batches),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    return {ORT: _session(model), ORT_INT8: _session(whole)}


def _reader(base: Any, batches: list[Batch]) -> Any:
    waiting = iter(batches)

    class Reader(base):  # type: ignore[misc]
        def get_next(self) -> Any:
            return next(waiting, None)

    return Reader()


def _session(path: str) -> Side:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Its threads otherwise wait by turning, and take the cores from whoever has the next turn.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda pictures: session.run(None, {"data": pictures})[0]
