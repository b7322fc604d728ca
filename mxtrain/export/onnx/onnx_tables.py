"""A net with a table as files of ONNX: what is behind the table, the table beside it, and both in one where they fit.

net.onnx takes rows that were looked up; the table's own files lie beside it, as docs/tables.md has them. Where all
rows fit into a file, whole.onnx takes ids and looks them up itself. Owns the nodes of the lookup: the place of an id
among all, ascending, by halving; an id without a row has zeros, the mean of what rows begin with.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.fields import Array, Arrays
from mxtrain.data.ids import shared_rows
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.onnx import onnx_export, onnx_graph
from mxtrain.models.nets.recommender_nets import IDS, LENGTHS, NUMBERS, ROWS, OverRows
from mxtrain.runtime import mx
from mxtrain.tables import saved_table

MODEL = "whole.onnx"
LARGEST_INSIDE = 1 << 30  # bytes of ids and rows
NO_ROW = "zeros in whole.onnx; in predict what a row of the id would begin with"


class KnownRows:
    """The `RowSource` of all rows in memory, with zeros for ids that have none, as `whole.onnx` has them."""

    def __init__(self, ids: Array, rows: Array):
        self.ids, self.values = ids, rows

    def rows(self, ids: Array) -> Array:
        found: Array = np.zeros((len(ids), self.values.shape[1]), np.float32)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        is_there = self.ids[places] == ids
        found[is_there] = self.values[places[is_there]]
        return found


def facts(net: OverRows, inputs: Sequence[Input]) -> dict[str, Any]:
    """Return what who looks rows up has to know; `inputs` are the arrays of a sample, as the task has them."""
    columns = next((each.names for each in inputs if each.holds_ids and each.names), ())
    shared = shared_rows.of_inputs(inputs)
    return {
        "files": f"{net.rows.options.name}.*",
        "width": net.rows.options.width,
        "fields": [*columns, *net.lists],  # of the input `rows`, in this order
        **({"rows_of": shared} if shared else {}),
        "of_lists": "the mean of their rows",
        "without_row": NO_ROW,
    }


def put_beside(net: OverRows, checkpoint: Path, folder: Path) -> list[str]:
    """Put the files of a net's table, as a checkpoint has them, into a folder; return their names."""
    paths = sorted(checkpoint.glob(f"{net.rows.options.name}.*"))
    for path in paths:
        _put(path, folder / path.name)
    return [path.name for path in paths]


def write(
    graph: InferenceGraph,
    net: OverRows,
    folder: Path,
    batch: int | None,
    metadata: Mapping[str, Any],
    samples: Iterable[Arrays],
) -> float | None:
    """Write `whole.onnx` where the table, which lies in the folder, fits into it.

    Args:
        graph: of what is behind the table.
        net: the net.
        folder: where the export goes.
        batch: samples that the model takes at a time; None for any number.
        metadata: what the model says of itself.
        samples: the arrays of samples, on which it is compared with the net.

    Returns:
        How far its answers are from the net's, as a share of the largest; None where it is not written.
    """
    ids, rows = saved_table.whole(folder, net.rows.options.name)
    if not len(ids) or ids.nbytes + rows.nbytes > LARGEST_INSIDE:
        return None
    onnx = onnx_graph.load("onnx")
    model = onnx_graph.convert(graph, batch)
    _look_up(onnx, model.graph, net, ids, rows)
    onnx_export.save(model, folder / MODEL, metadata, "the tables of the onnx export are")
    return _apart(folder / MODEL, net, KnownRows(ids, rows), batch, samples)


def _put(path: Path, place: Path) -> None:
    """Have a file at another place too: the same one, or a copy on another disk."""
    try:
        os.link(path, place)
    except OSError:
        shutil.copyfile(path, place)


@dataclasses.dataclass(frozen=True)
class _Pen:
    """Nodes of lookups that are written, and constants by name, each once."""

    onnx: Any
    batch: Any  # of inputs: a name, or a number
    nodes: list[Any] = dataclasses.field(default_factory=list)
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    inputs: list[Any] = dataclasses.field(default_factory=list)

    def constant(self, name: str, value: Any, dtype: Any = np.int64) -> str:
        if name not in self.constants:
            self.constants[name] = self.onnx.numpy_helper.from_array(np.array(value, dtype), f"rows/{name}")
        return f"rows/{name}"

    def node(self, operator: str, name: str, inputs: Sequence[str], **settings: Any) -> str:
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], name, **settings))
        return name

    def input(self, name: str, *shape: int) -> str:
        of_int64 = self.onnx.TensorProto.INT64
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, of_int64, [self.batch, *shape]))
        return name


def _look_up(onnx: Any, proto: Any, net: OverRows, ids: Array, rows: Array) -> None:
    """Put lookups before a graph, in the place of its input `rows`."""
    axis = proto.input[0].type.tensor_type.shape.dim[0]
    pen = _Pen(onnx, axis.dim_param or axis.dim_value)
    fields = []
    for name in net.names:
        if name == IDS:
            fields.append(_rows_of(pen, pen.input(IDS, *net.shapes[IDS]), ids, rows))
        elif name in net.lists:
            of_ids = _rows_of(pen, pen.input(name, *net.shapes[name]), ids, rows)
            fields.append(_mean_of(pen, of_ids, name, net.shapes[name][0]))
    pen.node("Concat", ROWS, fields, axis=1)
    inputs = [*pen.inputs, *(each for each in proto.input if each.name != ROWS)]
    nodes = [*pen.nodes, *proto.node]
    del proto.input[:], proto.node[:]
    proto.input.extend(inputs)
    proto.node.extend(nodes)
    proto.initializer.extend(pen.constants.values())


def _rows_of(pen: _Pen, name: str, ids: Array, rows: Array) -> str:
    """Write the nodes from ids to rows, zeros where an id has none."""
    node, constant = pen.node, pen.constant
    num_steps = max(1, len(ids).bit_length())
    padded = np.full(1 << num_steps, np.iinfo(np.int64).max)
    padded[: len(ids)] = ids
    place = node("Mul", f"{name}/0", [name, constant("none", 0)])
    for step in reversed(range(num_steps)):  # of those not above the id, how many there are at least
        further = node("Add", f"{name}/{step}/further", [place, constant(f"step{step}", 1 << step)])
        before = node("Sub", f"{name}/{step}/before", [further, constant("one", 1)])
        here = node("Gather", f"{name}/{step}/here", [constant("ids", padded), before])
        is_below = node("LessOrEqual", f"{name}/{step}/is_below", [here, name])
        place = node("Where", f"{name}/{step}/place", [is_below, further, place])
    place = node("Sub", f"{name}/before", [place, constant("one", 1)])
    place = node("Max", f"{name}/least", [place, constant("none", 0)])
    place = node("Min", f"{name}/most", [place, constant("last", len(ids) - 1)])
    here = node("Gather", f"{name}/here", [constant("ids", padded), place])
    is_there = node("Equal", f"{name}/is_there", [here, name])
    place = node("Where", f"{name}/place", [is_there, place, constant("empty", len(ids))])
    values = np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])
    return node("Gather", f"{name}/rows", [constant("values", values, np.float32), place])


def _mean_of(pen: _Pen, rows: str, name: str, length: int) -> str:
    """Write the nodes from the rows of lists to the mean of each list's, as one field; an empty list has zeros."""
    node, constant, real = pen.node, pen.constant, pen.onnx.TensorProto.FLOAT
    counts = pen.input(name + LENGTHS)
    column = node("Unsqueeze", f"{name}/counts", [counts, constant("second", [1])])
    is_inside = node("Less", f"{name}/is_inside", [constant(f"{name}/all", [range(length)]), column])
    counted = node("Cast", f"{name}/counted", [is_inside], to=real)
    counted = node("Unsqueeze", f"{name}/of_rows", [counted, constant("third", [2])])
    kept = node("Mul", f"{name}/kept", [rows, counted])
    total = node("ReduceSum", f"{name}/total", [kept, constant("second", [1])], keepdims=1)
    least = node("Max", f"{name}/at_least_one", [column, constant("one", 1)])
    divisor = node("Cast", f"{name}/divisor", [least], to=real)
    divisor = node("Unsqueeze", f"{name}/divisors", [divisor, constant("third", [2])])
    return node("Div", f"{name}/mean", [total, divisor])


def _apart(
    path: Path, net: OverRows, known: KnownRows, batch: int | None, samples: Iterable[Arrays]
) -> float:
    """Return how far the answers of a file are from the net's, as a share of the largest; DataError where too far."""
    answer = onnx_export.answer_of(str(path), batch)
    before, net.rows.source = net.rows.source, known
    apart = largest = 0.0
    for arrays in samples:
        inputs = {name: np.array(arrays[name]) for name in net.names}
        wanted = net(*(mx.nd.array(each, dtype=each.dtype) for each in inputs.values())).asnumpy()
        said = answer(
            {name: each if name == NUMBERS else each.astype(np.int64) for name, each in inputs.items()}
        )
        apart = max(apart, float(np.abs(wanted - said[0]).max()))
        largest = max(largest, float(np.abs(wanted).max()))
    net.rows.source = before
    relative = apart / largest if largest else apart
    if not relative <= onnx_export.TOLERANCE:
        raise DataError(
            f"the onnx export with its table does not answer as the net does, by {relative:.1e} of the largest answer; "
            f"more than {onnx_export.TOLERANCE:g} is refused"
        )
    return relative
