"""A net as a file of ONNX, checked by onnx and computed by onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

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
TOLERANCE = 1e-4


def check_installed() -> None:
    """Refuse what needs onnx or onnxruntime where one is missing, before anything is computed."""
    load("onnx")
    load("onnxruntime")


def write(graph: InferenceGraph, folder: Path, batch: int | None, metadata: Mapping[str, Any]) -> list[str]:
    """Write the file into `folder`, with its metadata, and return the names of all files."""
    onnx = load("onnx")
    model = onnx_graph.convert(graph, batch)
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
    onnx.helper.set_model_props(model, texts)
    if model.ByteSize() < LARGEST_FILE:
        (folder / MODEL).write_bytes(model.SerializeToString())
    else:
        onnx.save_model(model, str(folder / MODEL), save_as_external_data=True, location=WEIGHTS)
    try:
        onnx.checker.check_model(str(folder / MODEL), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise DataError(f"the onnx export of {graph.name} is not what ONNX allows: {error}") from None
    return sorted(path.name for path in folder.iterdir())


def answers(folder: Path, batch: int | None) -> Answer:
    """Return the function by which onnxruntime computes the file, `batch` samples at a time where it takes no other."""
    runtime = load("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors: its advice is for who has written the graph
    session = runtime.InferenceSession(str(folder / MODEL), options, providers=["CPUExecutionProvider"])

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
