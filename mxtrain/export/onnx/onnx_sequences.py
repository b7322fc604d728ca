"""Translations to ONNX of what nets of texts and series are made of: embeddings, recurrences, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.export.onnx.onnx_node import UNKNOWN, Node, Translation

# Of MXNet's gates, which are input, forget, cell and output, or reset, update and new: the order of ONNX.
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def embedding(node: Node) -> str:
    return node.write("Gather", [node.inputs[1], node.cast(node.inputs[0], "INT64")], axis=0)


def joined_weights(node: Node) -> str:
    """Join the weights of a recurrent layer now: they are known."""
    return node.constant(np.concatenate([node.value(place).ravel() for place in range(len(node.inputs))]))


def recurrence(node: Node) -> list[str]:
    """Translate layers one by one: ONNX has operators of a single one."""
    mode, size = node.get("mode", "lstm"), node.get("state_size", 0)
    count, both = node.get("num_layers", 1), node.get("bidirectional", False)
    if any(
        node.get(name, None) for name in ("projection_size", "use_sequence_length", "lstm_state_clip_min")
    ):
        raise node.refused("it has projections, lengths or limits")
    states = [
        [source] if count == 1 else node.write_several("Split", [source], count, axis=0)
        for source in node.inputs[2:]
        if source
    ]
    data, width, last = node.inputs[0], node.shapes[0][2], []
    directions = 2 if both else 1
    operator = {"lstm": "LSTM", "gru": "GRU"}.get(mode, "RNN")
    settings: dict[str, Any] = {"hidden_size": size, "direction": "bidirectional" if both else "forward"}
    if mode == "gru":
        settings["linear_before_reset"] = 1
    elif mode == "rnn_relu":
        settings["activations"] = ["Relu"] * directions
    for layer, arrays in enumerate(_weights(node, mode, size, count, directions, width)):
        inputs = [data, *map(node.constant, arrays), "", *(each[layer] for each in states)]
        steps, *ends = node.write_several(operator, inputs, 3 if mode == "lstm" else 2, **settings)
        # (steps, directions, samples, size) -> (steps, samples, directions * size)
        joined = node.transposed(steps, (0, 2, 1, 3))
        data = node.reshaped(joined, [node.shapes[0][0], node.shapes[0][1], directions * size])
        last.append(ends)
    outputs = [data]
    for number in range(len(last[0]) if node.get("state_outputs", False) else 0):
        each = [ends[number] for ends in last]
        outputs.append(node.write("Concat", each, axis=0) if count > 1 else each[0])
    return outputs


def _weights(node: Node, mode: str, size: int, count: int, directions: int, width: int) -> list[list[Array]]:
    """Return the weights of inputs, those of states and the biases of each layer, with the gates in ONNX's order."""
    flat, at, order = node.value(1), 0, list(GATES[mode])

    def take(columns: int) -> Array:
        nonlocal at
        rows = len(order) * size
        weights = flat[at : at + rows * columns].reshape(len(order), size, columns)
        at += rows * columns
        return np.asarray(weights[order].reshape(rows, columns))

    widths = [width, *[directions * size] * (count - 1)]
    matrices = [[[take(each), take(size)] for _ in range(directions)] for each in widths]
    biases = [[np.concatenate([take(1), take(1)]).ravel() for _ in range(directions)] for _ in widths]
    return [
        [*(np.stack(each) for each in zip(*of_layer)), np.stack(bias)]
        for of_layer, bias in zip(matrices, biases)
    ]


def sequence_last(node: Node) -> str:
    data, rank = node.inputs[0], len(node.shapes[0])
    if not node.get("use_sequence_length", False):
        axis = node.get("axis", 0)
        return node.write("Gather", [data, node.numbers(node.shapes[0][axis] - 1)], axis=axis)
    last = node.write("Sub", [node.inputs[1], node.constant(1.0)])
    places = node.write("Unsqueeze", [node.cast(last, "INT64"), node.numbers([1])])
    by_sample = node.transposed(data, (1, 0, *range(2, rank))) if node.get("axis", 0) == 0 else data
    return node.write("GatherND", [by_sample, places], batch_dims=1)


def sequence_reverse(node: Node) -> str:
    if not node.get("use_sequence_length", False):
        backwards = map(node.numbers, ([-1], [np.iinfo(np.int64).min], [0], [-1]))
        return node.write("Slice", [node.inputs[0], *backwards])
    lengths = node.cast(node.inputs[1], "INT64")
    return node.write("ReverseSequence", [node.inputs[0], lengths], time_axis=0, batch_axis=1)


def sequence_mask(node: Node) -> str:
    if not node.get("use_sequence_length", False):
        return node.inputs[0]
    rank, axis = len(node.shapes[0]), node.get("axis", 0)
    steps = np.arange(node.shapes[0][axis], dtype=np.float32)
    places = node.constant(steps.reshape([-1 if each == axis else 1 for each in range(rank)]))
    lengths = node.reshaped(node.inputs[1], [UNKNOWN if each == 1 - axis else 1 for each in range(rank)])
    return node.write(
        "Where",
        [node.write("Less", [places, lengths]), node.inputs[0], node.constant(node.get("value", 0.0))],
    )


def attention_scores(node: Node) -> str:
    """Translate queries times keys: of a head, query, key and value lie side by side."""
    (query, key), size = _heads(node, (0, 1))
    scaled = node.write("Div", [query, node.constant(math.sqrt(size))])
    return node.write("MatMul", [node.transposed(scaled, (1, 0, 2)), node.transposed(key, (1, 2, 0))])


def attended_values(node: Node) -> str:
    (value,), _ = _heads(node, (2,))
    found = node.write("MatMul", [node.inputs[1], node.transposed(value, (1, 0, 2))])
    return node.reshaped(node.transposed(found, (1, 0, 2)), node.output)


def _heads(node: Node, wanted: tuple[int, ...]) -> tuple[list[str], int]:
    """Return the wanted parts of all heads, (steps, samples * heads, size) each, and that size."""
    steps, samples, width = node.shapes[0]
    heads = node.get("heads", 1)
    size = width // heads // 3
    by_head = node.reshaped(
        node.inputs[0], [steps, UNKNOWN if samples == UNKNOWN else samples * heads, 3, size]
    )
    return [node.write("Gather", [by_head, node.numbers(part)], axis=2) for part in wanted], size


def divided_by_root(node: Node) -> str:
    return node.write("Div", [node.inputs[0], node.constant(math.sqrt(node.shapes[0][-1]))])


def arange_like(node: Node) -> str:
    axis = node.get("axis", None)
    if axis is None or node.get("repeat", 1) != 1:
        raise node.refused("it is over all axes, or repeats")
    (count,) = node.known([node.shapes[0][axis]], "its length")
    return node.constant(node.get("start", 0.0) + node.get("step", 1.0) * np.arange(count))


SEQUENCES: dict[str, Translation] = {
    **{"Embedding": embedding, "_rnn_param_concat": joined_weights, "RNN": recurrence},
    **{"SequenceLast": sequence_last, "SequenceReverse": sequence_reverse, "SequenceMask": sequence_mask},
    "_contrib_interleaved_matmul_selfatt_qk": attention_scores,
    "_contrib_interleaved_matmul_selfatt_valatt": attended_values,
    **{"_contrib_div_sqrt_dim": divided_by_root, "_contrib_arange_like": arange_like},
}
