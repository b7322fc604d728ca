"""A net as a file of ONNX, checked by onnx and computed by onnxruntime."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import IO, Any, Mapping

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.export.comparison import Answer
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.onnx import onnx_graph
from mxtrain.export.onnx.onnx_graph import load
from mxtrain.export.real_samples import Batch

MODEL, WEIGHTS = "net.onnx", "net.onnx.data"
LARGEST_FILE = 2_000_000_000  # bytes; a protobuf takes 2 GiB, and weights of more lie beside it
SMALLEST_BESIDE = 1024  # bytes; shapes and axes stay in the file, where who reads the graph looks for them
PAGE = 4096  # bytes, at a multiple of which an array begins: onnxruntime maps the file
TOLERANCE = 1e-4


def check_installed() -> None:
    """Refuse what needs onnx or onnxruntime where one is missing, before anything is computed."""
    load("onnx")
    load("onnxruntime")


def write(
    graph: InferenceGraph,
    folder: Path,
    batch: int | None,
    metadata: Mapping[str, Any],
    is_held: bool = False,
) -> list[str]:
    """Write the file into `folder`, with its metadata, and return the names of all files.

    Weights lie in a file beside it, written one by one, where a graph of less is not known to be: always if `is_held`.
    """
    model = None if is_held or _num_bytes(graph) >= LARGEST_FILE else onnx_graph.convert(graph, batch)
    if model is None or model.ByteSize() >= LARGEST_FILE:
        with (folder / WEIGHTS).open("wb") as file:
            model = onnx_graph.convert(graph, batch, functools.partial(_tensor_beside, file))
    save(model, folder / MODEL, metadata, f"the onnx export of {graph.name} is")
    return sorted(path.name for path in folder.iterdir())


def save(model: Any, path: Path, metadata: Mapping[str, Any], what: str) -> None:
    """Write a model with its metadata, and check it; DataError, which begins with `what`, if ONNX does not allow it."""
    onnx = load("onnx")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
    onnx.helper.set_model_props(model, texts)
    path.write_bytes(model.SerializeToString())
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise DataError(f"{what} not what ONNX allows: {error}") from None


def _num_bytes(graph: InferenceGraph) -> int:
    return sum(4 * math.prod(each.shape) for each in (*graph.arguments.values(), *graph.auxiliaries.values()))


def _tensor_beside(file: IO[bytes], array: Array, name: str) -> Any:
    """Append an array to the file and return the TensorProto that says where; one with it inside of a small array."""
    onnx = load("onnx")
    if array.nbytes < SMALLEST_BESIDE:
        return onnx.numpy_helper.from_array(array, name)
    file.write(bytes(-file.tell() % PAGE))
    place = {"location": WEIGHTS, "offset": file.tell(), "length": array.nbytes}
    file.write(array.data.cast("B"))
    return onnx.TensorProto(
        name=name,
        dims=array.shape,
        data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[
            onnx.StringStringEntryProto(key=key, value=str(value)) for key, value in place.items()
        ],
    )


def answers(folder: Path, batch: int | None, is_held: bool = False) -> Answer:
    """Return the function by which onnxruntime computes the file, `batch` samples at a time where it takes no other.

    If `is_held` it reads weights beside the file where they lie, which is slower.
    """
    return answer_of(str(folder / MODEL), batch, is_held)


def answer_of(model: str | bytes, batch: int | None, is_held: bool = False) -> Answer:
    """Return the same function of a file by its path, or of what it holds."""
    runtime = load("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors: its advice is for who has written the graph
    if is_held:  # or it would hold weights in an order of its own
        options.add_session_config_entry("session.disable_prepacking", "1")
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def answer(inputs: Batch) -> list[Array]:
        count = len(next(iter(inputs.values())))
        size = batch or count
        parts = []
        for start in range(0, count, size):
            # The last one is filled up with the first samples.
            rows = np.arange(start, start + size) % count
            parts.append(session.run(None, {name: array[rows] for name, array in inputs.items()}))
        return [np.concatenate(each)[:count] for each in zip(*parts)]

    return answer
