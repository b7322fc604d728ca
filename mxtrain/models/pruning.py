"""A net with fewer channels: `--prune SHARE --prune-by channel`.

Owns how many channels each group keeps, which, and making the net's layers so narrow before they get values; what a
group is, is `models/analysis/channels.py`'s. What remains is a plain net of fewer numbers, whose widths a checkpoint
keeps.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import DataError, UsageError
from mxtrain.models.analysis import channels, graph, shapes
from mxtrain.models.analysis.channels import Channels, Line, Shape
from mxtrain.models.parameters import weights
from mxtrain.models.parameters.running_statistics import NAME_ENDINGS
from mxtrain.models.rewrites.repairs import prelu
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

Widths = Dict[
    str, int
]  # channels of the groups that have fewer than the net's own, by their first layer's weight
Array = npt.NDArray[Any]
OF_NO_STRENGTH = ("bias", "beta", *NAME_ENDINGS)
BLOCK = 16  # channels that oneDNN computes at once; of more than these, full blocks remain


class Groups(NamedTuple):
    """The channels of a net that is not initialised yet."""

    channels: Channels
    shapes: dict[str, Shape]  # of all parameters, by long names
    paths: dict[str, str]  # from a parameter's long name to that by its place in the net

    def name(self, group: int) -> str:
        return self.paths[self.channels.groups[group].layers[0]]


def groups_of(net: Block, name: str, input_shape: Shape) -> Groups:
    """Return the groups of channels of the net that `--model name` has built, for inputs of this shape.

    UsageError for one whose graph does not tell.
    """
    try:
        with prelu.as_one_node():
            nodes, symbol = graph.trace(net), net(mx.sym.var("data"))
        known = shapes.of_variables(symbol, input_shape)
    except Exception:  # whatever a net raises that is no graph
        nodes, known = [], {}
    paths = {parameter.name: place for place, parameter in weights.named_parameters(net).items()}
    if not known or not paths.keys() <= known.keys():
        raise _unprunable(name, "it is no graph of one input whose shapes follow from it")
    return Groups(channels.find(nodes, known), known, paths)


def widths_after(name: str, groups: Groups, share: float) -> Widths:
    """Return how many channels the groups keep of which `--prune share` takes this share; UsageError where none do."""
    left = {number: group for number, group in groups.channels.groups.items() if not group.reason}
    if not left:
        first = next(iter(groups.channels.groups), None)
        why = (
            "it has no layers that make any"
            if first is None
            else f"those of {groups.name(first)} have to stay: {groups.channels.groups[first].reason}"
        )
        raise _unprunable(name, why)
    kept = {number: kept_of(group.size, share) for number, group in left.items()}
    for number, width in kept.items():
        if not width:
            size = left[number].size
            raise UsageError(
                f"--prune {share:g}: leaves nothing of the {size} channels of {groups.name(number)}; give "
                f"{math.floor(1000 * (1 - 1 / size)) / 1000:g} or less"
            )
    return {groups.name(number): width for number, width in kept.items()}


def kept_of(size: int, share: float) -> int:
    """Return how many of `size` channels remain: more than a block in full blocks, if all are."""
    kept = round(size * (1.0 - share))
    if size % BLOCK == 0 and kept > BLOCK:
        kept = min(size, BLOCK * math.ceil(kept / BLOCK))
    return kept


def summary(groups: Groups, widths: Widths) -> str:
    """Return in words how much of a net remains, and what of it stays as it was."""
    sizes = sizes_with(groups, widths)
    before = sum(math.prod(groups.shapes[name]) for name in groups.paths)
    after = sum(
        math.prod(
            length(of_axis[axis], sizes) if axis in of_axis else size
            for axis, size in enumerate(groups.shapes[name])
        )
        for name, of_axis in ((name, groups.channels.axes.get(name, {})) for name in groups.paths)
    )
    whole = [
        number
        for number, group in groups.channels.groups.items()
        if group.reason not in ("", channels.ANSWER)
    ]
    rest = ""
    if whole:
        first = whole[0]
        rest = (
            f"; {len(whole)} of {len(sizes)} groups of channels stay as they are, that of {groups.name(first)} because "
            f"{groups.channels.groups[first].reason}"
        )
    return f"{before:,} numbers of the net become {after:,} ({after / before:.0%}){rest}"


def _unprunable(name: str, why: str) -> UsageError:
    return UsageError(
        f"--prune-by channel: no channel of --model {name} can be taken out: {why}; give --prune-by weight, which "
        "takes single weights of any net"
    )


# ------------------------------------------------------------------------------------------------------------
# Narrow layers


def remove_channels(net: Block, groups: Groups, widths: Widths) -> None:
    """Give the layers of a net that is not initialised yet so few channels."""
    sizes = sizes_with(groups, widths)
    parameters = {parameter.name: parameter for parameter in net.collect_params().values()}
    for name, axes in groups.channels.axes.items():
        shape = list(groups.shapes[name])
        for axis, line in axes.items():
            shape[axis] = length(line, sizes)
        parameters[name]._shape = tuple(shape)
        parameters[name]._var = None  # the symbol that Gluon keeps says the shape too
    for layer in weights.layers(net, mx.gluon.HybridBlock):
        name = getattr(getattr(layer, "weight", None), "name", "")
        outputs = groups.channels.outputs.get(name)
        if outputs:
            _set_width(layer, length(outputs, sizes), name in groups.channels.depthwise)


def sizes_with(groups: Groups, widths: Widths) -> dict[int, int]:
    """Return how many channels each group has with these widths."""
    return {
        number: widths.get(groups.name(number), group.size)
        for number, group in groups.channels.groups.items()
    }


def length(line: Line, sizes: Mapping[int, int]) -> int:
    """Return the number of channels along a line."""
    return sum(sizes[part.group] * part.times for part in line)


def _set_width(layer: Block, width: int, is_depthwise: bool) -> None:
    """Have a convolution or dense layer make so many channels; its graph says the number, besides its weights."""
    if isinstance(layer, mx.gluon.nn.Dense):
        layer._units = width
        return
    layer._channels = layer._kwargs["num_filter"] = width
    if is_depthwise:
        layer._kwargs["num_group"] = width


# ------------------------------------------------------------------------------------------------------------
# Kept channels


class Cut:
    """The parts of a wider net's arrays that are of kept channels, by the long names of parameters."""

    def __init__(self, groups: Groups, widths: Widths):
        self._groups, self._widths = groups, widths
        self._kept: dict[int, Array] = {}

    def shape(self, name: str) -> Shape:
        """Return the shape of a parameter of the wider net."""
        return tuple(self._groups.shapes[name])

    def choose(self, arrays: Mapping[str, Array], source: str) -> None:
        """Keep the strongest channels by these arrays of the wider net; DataError where one has none."""
        self._kept = strongest(self._groups, self._widths, arrays, source)

    def __call__(self, name: str, array: Array) -> Array:
        """Return what of a parameter's array remains."""
        for axis, line in self._groups.channels.axes.get(name, {}).items():
            array = np.take(array, kept_positions(line, self._groups, self._kept), axis=axis)
        return array


def strongest(groups: Groups, widths: Widths, arrays: Mapping[str, Array], source: str) -> dict[int, Array]:
    """Return, in their order, the channels that each group keeps: those of the largest weights in `arrays`.

    `arrays` are by long names, of the shapes of `groups`; DataError, which names their `source`, where it has none.
    """
    sizes = sizes_with(groups, widths)
    kept = {}
    for number, group in groups.channels.groups.items():
        if sizes[number] < group.size:
            missing = [name for name in group.layers if name not in arrays]
            if missing:
                raise DataError(
                    f"--pretrained {source}: has no weights of {groups.paths[missing[0]]} to choose channels by; give "
                    "the run that is to be pruned"
                )
            best = np.argsort(-_strengths(number, groups, arrays), kind="stable")[: sizes[number]]
            kept[number] = np.sort(best)
    return kept


def _strengths(number: int, groups: Groups, arrays: Mapping[str, Array]) -> Array:
    """Return how strong the channels of a group are: the squares of all weights that make or take them, and of scales.

    Those of each parameter count by their mean, as their sizes cannot be compared: before a norm any will do.
    """
    total = np.zeros(groups.channels.groups[number].size)
    for name, axes in groups.channels.axes.items():
        for axis, line in axes.items():
            is_weight = not name.endswith(OF_NO_STRENGTH) and name in arrays
            if is_weight and [part.group for part in line] == [number]:
                squares = np.square(np.moveaxis(arrays[name].astype(np.float64), axis, 0))
                of_channel = squares.reshape(len(total), -1).sum(axis=1)
                total += of_channel / (of_channel.mean() or 1.0)
    return total


def kept_positions(line: Line, groups: Groups, kept: Mapping[int, Array]) -> Array:
    """Return the places along a line that remain."""
    found: list[Array] = []
    start = 0
    for group, times in line:
        size = groups.channels.groups[group].size
        of_group = kept.get(group, np.arange(size))
        found.append((start + of_group[:, np.newaxis] * times + np.arange(times)).ravel())
        start += size * times
    return np.concatenate(found)
