"""Frozen parameters: `--freeze 'layer1.*,conv1.*'`.

Owns the matching of patterns. A frozen parameter gets no gradient and therefore no update, no weight decay and no
optimizer state; so do the rows of a table, whose name is matched. Running statistics can be frozen too: a BatchNorm
whose own match normalises with them, as in an evaluation, and they do not move.
"""

from __future__ import annotations

import fnmatch
from typing import Sequence

from mxtrain.core.errors import UsageError, nearest
from mxtrain.models.nets.table import tables_of
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block


def freeze(net: Block, patterns: str) -> list[str]:
    """Freeze the parameters and tables that the patterns match; call it before the net is compiled.

    Return the names of the parameters.

    UsageError if a pattern matches nothing or nothing is left to train.
    """
    named, tables = weights.named_parameters(net), tables_of(net)
    matched = matching_names(patterns, [*named, *(table.options.name for table in tables)])
    frozen = [name for name in named if name in matched]
    if all(name in frozen for name, parameter in named.items() if parameter.grad_req != "null"):
        left = "tables alone" if any(table.options.name not in matched for table in tables) else "nothing"
        raise UsageError(f"--freeze {patterns}: leaves {left} to train; freeze less")
    for name in frozen:
        named[name].grad_req = "null"
    for table in tables:
        table.is_frozen = table.options.name in matched
    for layer in weights.layers(net, mx.gluon.nn.Dense):
        # If only the weight is frozen, MXNet does not compute the bias's gradient and leaves an old one there.
        if layer.bias is not None and layer.weight.grad_req == "null" != layer.bias.grad_req:
            bias = next(name for name, parameter in named.items() if parameter is layer.bias)
            raise UsageError(f"--freeze {patterns}: {bias} would train without its weight; freeze it too")
    for layer in weights.layers(net, mx.gluon.nn.BatchNorm):
        if any(named[name] in (layer.running_mean, layer.running_var) for name in frozen):
            layer._kwargs["use_global_stats"] = True
    return frozen


def matching_names(patterns: str, names: Sequence[str], flag: str = "--freeze") -> list[str]:
    """Return the names that any pattern matches; `*` stands for anything, `[12]` for one of these characters."""
    found = set()
    for pattern in patterns.split(","):
        matched = fnmatch.filter(names, pattern.strip())
        if not matched:
            hint = nearest(pattern, names) or f"; they are called {names[0]} to {names[-1]}"
            raise UsageError(f"{flag} {pattern}: matches no parameter{hint} (--dry-run lists them)")
        found.update(matched)
    return [name for name in names if name in found]
