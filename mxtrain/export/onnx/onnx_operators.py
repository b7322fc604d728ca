"""Translations to ONNX of operators on numbers and shapes: arithmetic, comparisons, reductions, reshapes, slices."""

from __future__ import annotations

import functools

import numpy as np

from mxtrain.export.onnx.onnx_node import UNKNOWN, Node, Translation

UNARY = {
    **{
        name: name.capitalize()
        for name in ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "floor", "ceil")
    },
    **{name: name.capitalize() for name in ("erf", "reciprocal", "sin", "cos", "tan", "round", "sign")},
    **dict.fromkeys(("_copy", "identity", "BlockGrad", "make_loss", "MakeLoss", "Dropout"), "Identity"),
    **{"negative": "Neg", "softsign": "Softsign", "arctan": "Atan", "arcsin": "Asin", "arccos": "Acos"},
}
BINARY = {
    f"{prefix}{name}": operator
    for prefix in ("elemwise_", "broadcast_", "_")
    for name, operator in {
        **{"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow"},
        **{"maximum": "Max", "minimum": "Min", "plus": "Add", "minus": "Sub"},
    }.items()
}
# The second says that the number comes first.
SCALAR = {
    **{"_plus_scalar": ("Add", False), "_minus_scalar": ("Sub", False), "_rminus_scalar": ("Sub", True)},
    **{"_mul_scalar": ("Mul", False), "_div_scalar": ("Div", False), "_rdiv_scalar": ("Div", True)},
    **{"_power_scalar": ("Pow", False), "_rpower_scalar": ("Pow", True)},
    **{"_maximum_scalar": ("Max", False), "_minimum_scalar": ("Min", False)},
}
COMPARISONS = {
    **{"equal": "Equal", "greater": "Greater", "lesser": "Less"},
    **{"greater_equal": "GreaterOrEqual", "lesser_equal": "LessOrEqual", "not_equal": "Equal"},
}
REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
}


def of_one(node: Node, operator: str) -> str:
    return node.write(operator, [node.inputs[0]])


def of_two(node: Node, operator: str) -> str:
    return node.write(operator, list(node.inputs[:2]))


def with_number(node: Node, operator: str, comes_first: bool) -> str:
    pair = [node.inputs[0], node.constant(node.get("scalar", 0.0))]
    return node.write(operator, pair[::-1] if comes_first else pair)


def compared(node: Node, operator: str, is_negated: bool) -> str:
    second = node.inputs[1] if len(node.inputs) > 1 else node.constant(node.get("scalar", 0.0))
    found = node.write(operator, [node.inputs[0], second])
    return node.cast(node.write("Not", [found]) if is_negated else found, "FLOAT")


def reduced(node: Node, operator: str) -> str:
    rank = len(node.shapes[0])
    axes = [axis % rank for axis in node.get("axis", ()) if axis is not None] or list(range(rank))
    if node.get("exclude", False):
        axes = [axis for axis in range(rank) if axis not in axes]
    keep = int(node.get("keepdims", False))
    if operator == "ReduceSum":  # the first for which ONNX has made axes an input
        return node.write(operator, [node.inputs[0], node.numbers(axes)], keepdims=keep)
    return node.write(operator, [node.inputs[0]], axes=axes, keepdims=keep)


def square(node: Node) -> str:
    return node.write("Mul", [node.inputs[0]] * 2)


def rsqrt(node: Node) -> str:
    return node.write("Reciprocal", [node.write("Sqrt", [node.inputs[0]])])


def add_n(node: Node) -> str:
    return node.write("Sum", list(node.inputs))


def clip(node: Node) -> str:
    least, most = (node.constant(node.get(name, 0.0)) for name in ("a_min", "a_max"))
    return node.write("Clip", [node.inputs[0], least, most])


def cast(node: Node) -> str:
    type_names = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "FLOAT16"}
    dtype = node.get("dtype", "float32")
    return node.cast(node.inputs[0], type_names.get(dtype, dtype.upper()))


def where(node: Node) -> str:
    return node.write("Where", [node.cast(node.inputs[0], "BOOL"), *node.inputs[1:3]])


def filled(node: Node, value: float) -> str:
    """Translate an array of one number, as many as another array has."""
    tensor = node.model.onnx.helper.make_tensor("value", node.model.onnx.TensorProto.FLOAT, [1], [value])
    return node.write("ConstantOfShape", [node.write("Shape", [node.inputs[0]])], value=tensor)


def constant_filled(node: Node, value: float) -> str:
    """Translate an array of one number; of zeros for each sample, as a state begins with, there is none."""
    if UNKNOWN in node.output and not value:
        return ""
    return node.constant(np.full(node.known(node.output, "its shape"), node.get("value", value)))


def eye(node: Node) -> str:
    rows, columns = node.output
    return node.constant(np.eye(rows, columns, node.get("k", 0), dtype=np.float32))


def arange(node: Node) -> str:
    first, end = node.get("start", 0.0), node.get("stop", None)
    first, end = (0.0, first) if end is None else (first, end)
    values = np.arange(first, end, node.get("step", 1.0), dtype=np.float32)
    return node.constant(np.repeat(values, node.get("repeat", 1)))


def arange_like(node: Node) -> str:
    axis = node.get("axis", None)
    if axis is None:
        raise node.refused("it counts all numbers")
    (count,) = node.known([node.shapes[0][axis]], "how far it counts")
    values = node.get("start", 0.0) + node.get("step", 1.0) * np.arange(count, dtype=np.float32)
    return node.constant(values)


def cumsum(node: Node) -> str:
    return node.write("CumSum", [node.inputs[0], node.numbers(node.get("axis", 0))])


def argument(node: Node, operator: str) -> str:
    axis = node.get("axis", None)
    if axis is None:
        raise node.refused("it is over all axes at once")
    found = node.write(operator, [node.inputs[0]], axis=axis, keepdims=int(node.get("keepdims", False)))
    return node.cast(found, "FLOAT")


# ------------------------------------------------------------------------------------------------------------
# Shapes


def reshaped(node: Node) -> str:
    """Translate all of MXNet's ways to say a shape at once, by what comes of them."""
    return node.reshaped(node.inputs[0], node.output)


def transpose(node: Node) -> str:
    rank = len(node.shapes[0])
    return node.transposed(node.inputs[0], node.get("axes", ()) or range(rank)[::-1])


def swap_axes(node: Node) -> str:
    axes = list(range(len(node.shapes[0])))
    first, second = node.get("dim1", 0), node.get("dim2", 0)
    axes[first], axes[second] = axes[second], axes[first]
    return node.transposed(node.inputs[0], axes)


def expand_dims(node: Node) -> str:
    return node.write("Unsqueeze", [node.inputs[0], node.numbers([node.get("axis", 0)])])


def broadcast(node: Node) -> str:
    """Translate by the axes that grow: those of the samples stay as they are."""
    before, after = node.shapes[0], node.output
    wanted = [1 if old == new else new for old, new in zip(before, after)]
    return node.write("Expand", [node.inputs[0], node.numbers(node.known(wanted, "what it repeats"))])


def broadcast_like(node: Node) -> str:
    if node.get("lhs_axes", ()):  # of some axes alone, whose lengths are known
        return broadcast(node)
    return node.write("Expand", [node.inputs[0], node.write("Shape", [node.inputs[1]])])


def tile(node: Node) -> str:
    times = node.get("reps", (1,))
    rank = len(node.shapes[0])
    if len(times) > rank:
        raise node.refused("it adds axes")
    return node.write("Tile", [node.inputs[0], node.numbers([1] * (rank - len(times)) + list(times))])


def concat(node: Node) -> str:
    return node.write("Concat", list(node.inputs), axis=node.get("dim", 1))


def stack(node: Node) -> str:
    axis = node.get("axis", 0)
    each = [node.write("Unsqueeze", [source, node.numbers([axis])]) for source in node.inputs]
    return node.write("Concat", each, axis=axis)


def slice_channel(node: Node) -> list[str]:
    count, axis = node.get("num_outputs", 1), node.get("axis", 1)
    parts = node.write_several("Split", [node.inputs[0]], count, axis=axis)
    if node.get("squeeze_axis", False):
        parts = [node.write("Squeeze", [part, node.numbers([axis])]) for part in parts]
    return parts


def slice_(node: Node) -> str:
    begin, end = node.get("begin", ()), node.get("end", ())
    step = tuple(each or 1 for each in node.get("step", ())) or (1,) * len(begin)
    last = [np.iinfo(np.int64).max if pace > 0 else np.iinfo(np.int64).min for pace in step]
    first = [0 if pace > 0 else np.iinfo(np.int64).max for pace in step]
    begin = [default if bound is None else bound for bound, default in zip(begin, first)]
    end = [default if bound is None else bound for bound, default in zip(end, last)]
    return _slice(node, begin, end, list(range(len(begin))), list(step))


def slice_axis(node: Node) -> str:
    end = node.get("end", None)
    return _slice(
        node, [node.get("begin", 0)], [np.iinfo(np.int64).max if end is None else end], [node.get("axis", 0)]
    )


def slice_like(node: Node) -> str:
    rank = len(node.shapes[0])
    axes = [axis % rank for axis in node.get("axes", ())] or list(range(rank))
    axes = [axis for axis in axes if node.shapes[0][axis] != node.shapes[1][axis]]
    end = node.known([node.shapes[1][axis] for axis in axes], "where it ends")
    return _slice(node, [0] * len(axes), end, axes) if axes else node.inputs[0]


def _slice(
    node: Node, begin: list[int], end: list[int], axes: list[int], step: list[int] | None = None
) -> str:
    inputs = [begin, end, axes, *([step] if step else [])]
    return node.write("Slice", [node.inputs[0], *map(node.numbers, inputs)])


def take(node: Node) -> str:
    places = node.cast(node.inputs[1], "INT64")
    return node.write("Gather", [node.inputs[0], places], axis=node.get("axis", 0))


def pad(node: Node) -> str:
    widths = node.get("pad_width", ())
    mode = node.get("mode", "constant")
    more = [node.constant(node.get("constant_value", 0.0))] if mode == "constant" else []
    return node.write("Pad", [node.inputs[0], node.numbers([*widths[::2], *widths[1::2]]), *more], mode=mode)


OPERATORS: dict[str, Translation] = {
    **{name: functools.partial(of_one, operator=operator) for name, operator in UNARY.items()},
    **{name: functools.partial(of_two, operator=operator) for name, operator in BINARY.items()},
    **{
        name: functools.partial(with_number, operator=operator, comes_first=first)
        for name, (operator, first) in SCALAR.items()
    },
    **{
        name.format(each): functools.partial(compared, operator=operator, is_negated=each == "not_equal")
        for name in ("broadcast_{}", "_{}", "_{}_scalar")
        for each, operator in COMPARISONS.items()
    },
    **{name: functools.partial(reduced, operator=operator) for name, operator in REDUCTIONS.items()},
    "sum_axis": functools.partial(reduced, operator="ReduceSum"),
    **{"square": square, "rsqrt": rsqrt, "add_n": add_n, "clip": clip, "Cast": cast, "where": where},
    **{"ones_like": functools.partial(filled, value=1.0), "zeros_like": functools.partial(filled, value=0.0)},
    **{
        "_ones": functools.partial(constant_filled, value=1.0),
        "_full": functools.partial(constant_filled, value=1.0),
    },
    **{name: functools.partial(constant_filled, value=0.0) for name in ("_zeros", "_zeros_without_dtype")},
    **{
        "_arange": arange,
        "_contrib_arange_like": arange_like,
        "_eye": eye,
        "cumsum": cumsum,
        "_np_cumsum": cumsum,
    },
    **{
        "argmax": functools.partial(argument, operator="ArgMax"),
        "argmin": functools.partial(argument, operator="ArgMin"),
    },
    **dict.fromkeys(("Reshape", "Flatten", "squeeze", "reshape_like"), reshaped),
    **{"transpose": transpose, "SwapAxis": swap_axes, "expand_dims": expand_dims},
    **{
        "broadcast_axis": broadcast,
        "broadcast_to": broadcast,
        "broadcast_like": broadcast_like,
        "tile": tile,
    },
    **{
        "Concat": concat,
        "stack": stack,
        "SliceChannel": slice_channel,
        "slice": slice_,
        "slice_axis": slice_axis,
    },
    **{"slice_like": slice_like, "take": take, "Pad": pad},
}
