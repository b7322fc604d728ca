"""Learning rates that differ from layer to layer: `--lr-scale` and `--layer-decay`.

Owns what the rate of a parameter, or of a table's rows, is multiplied by, and what the layers of a net are. The product
is its `lr_mult`, which each optimizer heeds, on workers and on servers.
"""

from __future__ import annotations

from typing import Any, Iterator, Union

from mxtrain.config import Optim
from mxtrain.config.values import rate_scales
from mxtrain.core.errors import UsageError
from mxtrain.models.nets.table import Table, tables_of
from mxtrain.models.parameters import weights
from mxtrain.models.remat import unwrapped
from mxtrain.optim.freeze import matching_names
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Parameter

SEQUENCES = (
    mx.gluon.nn.Sequential,
    mx.gluon.nn.HybridSequential,
)  # but no kind of them, such as branches side by side

Trained = Union[Parameter, Table]


def scale_rates(net: Block, optim: Optim) -> None:
    """Set the factor of each parameter's and table's rate; as the net has it where neither flag is given.

    UsageError for a pattern that matches nothing, and where a net has no layers to tell apart.
    """
    scales = rate_scales.parse(optim.lr_scale)
    if not scales and optim.layer_decay == 1:
        return
    named: dict[str, Trained] = {
        **{table.options.name: table for table in tables_of(net)},
        **weights.named_parameters(net),
    }
    factors = dict.fromkeys(named, 1.0)
    for pattern, factor in scales:
        factors.update(dict.fromkeys(matching_names(pattern, list(named), "--lr-scale"), factor))
    depths = _depths(net, named) if optim.layer_decay != 1 else {}
    for name, trained in named.items():
        trained.lr_mult = factors[name] * optim.layer_decay ** depths.get(name, 0)


def _depths(net: Block, named: dict[str, Trained]) -> dict[str, int]:
    """Return for each name how many layers lie between it and the output; what is the net's own lies deepest."""
    found = layers(unwrapped(net))
    if len(found) < 2:
        raise UsageError(
            "--layer-decay: the net is one layer, as its blocks tell; leave it out, or give --lr-scale"
        )
    depth_of = {id(trained): depth for depth, layer in enumerate(reversed(found)) for trained in layer}
    return {name: depth_of.get(id(trained), len(found) - 1) for name, trained in named.items()}


def layers(net: Block) -> list[list[Trained]]:
    """Return the parameters and tables of each layer of a net, in the order in which it registers them.

    A layer is a child of the net, of a sequence in it or of the body that it has, with all that is inside, such as a
    residual block. What holds vectors alone, such as a norm, belongs to the layer before it.
    """
    found: list[list[Any]] = []
    for block in _blocks(net):
        parameters, tables = list(block.collect_params().values()), tables_of(block)
        if found and not tables and all(len(parameter.shape) < 2 for parameter in parameters):
            found[-1] += parameters
        elif parameters or tables:
            found.append([*parameters, *tables])
    return found


def _blocks(net: Block) -> Iterator[Block]:
    for child in net._children.values():
        if type(child) in SEQUENCES or (type(net) not in SEQUENCES and _is_body(child)):
            yield from _blocks(child)
        else:
            yield child


def _is_body(block: Block) -> bool:
    """Return whether a block has a sequence of blocks that have blocks: a net inside a net, and no residual block."""
    sequences = [child for child in block._children.values() if type(child) in SEQUENCES]
    return any(layer._children for sequence in sequences for layer in sequence._children.values())
