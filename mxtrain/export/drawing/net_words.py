"""The layers of a net in words: a table of its blocks for people, and all there is to know as JSON."""

from __future__ import annotations

import math
import re
from typing import Any, Iterator, NamedTuple

from mxtrain.models.analysis import layer_table
from mxtrain.models.analysis.layer_table import FLOAT32_BYTES, Element, LayerTotals, Net, Operator, Part

LONGEST = 60  # rows of a table whose depth nobody has asked for
WIDTHS = (32, 19, 17, 11, 8, 8)  # 100 with what lies between; names that are longer are cut
HEAD = ("layer", "kind", "output", "parameters", "MACs", "memory")
PREFIXES = re.compile(r"^_*(contrib_|np[xi]?_)?((broadcast|elemwise)_(?!axis|to|like))?")
SETTINGS = ("kernel", "stride", "dilate", "num_group")


class Layer(NamedTuple):
    """A row: a block, or an operator that a larger block computes by itself."""

    what: Element
    depth: int
    path: str
    layer_type: str
    shape: tuple[int, ...]  # of its last output
    sums: LayerTotals


def layers(net: Net, depth: int | None = None) -> list[Layer]:
    """Return the layers down to a depth, each block before what it consists of."""
    return list(_within(net, net.root, 0, depth))


def _within(net: Net, part: Part, depth: int, deepest: int | None) -> Iterator[Layer]:
    for what in part.content:
        yield layer(net, what, depth, part.path)
        if isinstance(what, Part) and not is_leaf(what) and (deepest is None or depth + 1 < deepest):
            yield from _within(net, what, depth + 1, deepest)


def layer(net: Net, what: Element, depth: int, path: str) -> Layer:
    """Return the row of a part or an operator; `path` is that of the block around it."""
    last = net.operators[layer_table.operators_of(what)[-1]]
    layer_type = plain_name(last.operator_type)
    if isinstance(what, Part):
        path, layer_type = what.path, what.class_name
    return Layer(what, depth, path, layer_type, last.shape, layer_table.sums(net, what))


def is_leaf(what: Element) -> bool:
    """Return whether nothing more is to be seen in it: an operator, or a block that computes a single one."""
    return isinstance(what, int) or len(layer_table.operators_of(what)) == 1


def readable_depth(net: Net, longest: int = LONGEST) -> int:
    """Return the largest depth with so many rows at most; 1 if there are more anyway."""
    rows = layers(net)
    deepest = max((row.depth for row in rows), default=0) + 1
    fitting = (depth for depth in range(deepest, 1, -1) if sum(row.depth < depth for row in rows) <= longest)
    return next(fitting, 1)


def table(net: Net, depth: int | None = None) -> str:
    """Return the table, in which numbers of a block are sums over all that is in it."""
    shown = readable_depth(net) if depth is None else depth
    rows = layers(net)
    hidden = sum(row.depth >= shown for row in rows)
    lines = [_line(HEAD), *(_line(_cells(row)) for row in rows if row.depth < shown)]
    if hidden:
        lines.append(f"({hidden} layers within these are not shown: --depth {shown + 1}, or --json)")
    return "\n".join(lines)


def _cells(row: Layer) -> tuple[str, ...]:
    name = row.path.rpartition(".")[2] if isinstance(row.what, Part) else "."
    return (
        "  " * row.depth + (name or row.layer_type),
        row.layer_type,
        shape_text(row.shape),
        f"{row.sums.num_parameters:,}" if row.sums.num_parameters else "",
        "?" if row.sums.flops is None else count(row.sums.flops // 2) if row.sums.flops else "",
        size(row.sums.output_bytes) if row.sums.output_bytes else "",
    )


def _line(cells: tuple[str, ...]) -> str:
    left = [f"{cell[: width - 1]}…" if len(cell) > width else cell for cell, width in zip(cells, WIDTHS)]
    sides = (str.ljust, str.ljust, str.ljust, str.rjust, str.rjust, str.rjust)
    return " ".join(place(cell, width) for place, cell, width in zip(sides, left, WIDTHS)).rstrip()


def totals(net: Net, training: dict[str, Any]) -> list[str]:
    """Return the lines below the table; `training` is as `as_json` has it."""
    of_net = layer_table.sums(net)
    inputs = ", ".join(f"{name} {shape_text(shape)}" for name, shape in net.inputs.items())
    rest = of_net.num_parameters - of_net.num_trained
    others = f", and {rest:,} that are not, as running statistics" if rest else ""
    lines = [f"{of_net.num_trained:,} parameters that are learnt{others}; for {inputs}"]
    if of_net.flops is None or of_net.backward_flops is None:
        lines.append("multiply-adds (MACs): not known, as an operator of the net does not tell")
    else:
        both = count((of_net.flops + of_net.backward_flops) // 2)
        lines.append(
            f"{count(of_net.flops // 2)} multiply-adds (MACs) for an answer; {both} to learn from a sample"
        )
    lines.append(
        f"memory to answer: weights {size(FLOAT32_BYTES * of_net.num_parameters)} and about "
        f"{size(layer_table.inference_bytes(net))} a sample"
    )
    state = "not known" if training["state_bytes"] is None else size(training["state_bytes"])
    lines.append(
        f"memory to learn with {training['optimizer']}: weights {size(training['weight_bytes'])}, gradients "
        f"{size(training['gradient_bytes'])}, its state {state}, and about "
        f"{size(of_net.output_bytes)} a sample"
    )
    return lines


def as_json(title: str, net: Net, training: dict[str, Any]) -> dict[str, Any]:
    """Return all of it; sizes are bytes, for one sample."""
    return {
        "net": title,
        "inputs": {name: list(shape) for name, shape in net.inputs.items()},
        "outputs": [list(net.operators[number].shape) for number in net.outputs],
        "totals": {**_numbers(layer_table.sums(net)), "inference_bytes": layer_table.inference_bytes(net)},
        "training": training,
        "layers": [
            {
                "path": row.path,
                "kind": row.layer_type,
                "depth": row.depth,
                "output": list(row.shape),
                **_numbers(row.sums),
                "operators": layer_table.operators_of(row.what),
            }
            for row in layers(net)
        ],
        "operators": [_operator(each) for each in net.operators],
    }


def _operator(operator: Operator) -> dict[str, Any]:
    named_in_json = {"operator_type": "kind", "num_parameters": "numbers"}
    fields = {named_in_json.get(name, name): value for name, value in operator._asdict().items()}
    return {**fields, "attributes": dict(operator.attributes)}


def _numbers(sums: LayerTotals) -> dict[str, Any]:
    return {
        "parameters": sums.num_parameters,
        "learnt_parameters": sums.num_trained,
        "parameter_bytes": FLOAT32_BYTES * sums.num_parameters,
        "flops": sums.flops,
        "backward_flops": sums.backward_flops,
        "output_bytes": sums.output_bytes,
    }


# ------------------------------------------------------------------------------------------------------------
# Words for single things


def plain_name(operator: str) -> str:
    """Return MXNet's name of an operator without what it begins with: `add` of `elemwise_add`."""
    return PREFIXES.sub("", operator) or operator


def settings(operator: Operator) -> str:
    """Return what makes a convolution or pooling this one, such as `3×3 /2`."""
    found = {name: operator.attributes[name] for name in SETTINGS if name in operator.attributes}
    words = []
    if "kernel" in found and operator.attributes.get("global_pool") != "True":
        words.append("×".join(re.findall(r"\d+", found["kernel"])))
    strides = set(re.findall(r"\d+", found.get("stride", "")))
    if strides - {"1"}:
        words.append("/" + "×".join(sorted(strides)))
    if set(re.findall(r"\d+", found.get("dilate", ""))) - {"1"}:
        words.append("dilated")
    if found.get("num_group", "1") != "1":
        words.append(f"in {found['num_group']} groups")
    return " ".join(words)


def shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if shape else "?"


def count(number: int) -> str:
    """Return a number as 1.81 G, 118 M or 9.41 k."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            digits = max(0, 2 - int(math.log10(number / 10**power)))
            return f"{number / 10**power:.{digits}f} {letter}"
    return str(number)


def size(num_bytes: int) -> str:
    """Return a size as 46.8 MB or 3.1 kB."""
    for power, letter in ((9, "GB"), (6, "MB"), (3, "kB")):
        if num_bytes >= 10**power:
            return f"{num_bytes / 10**power:.1f} {letter}"
    return f"{num_bytes} B"
