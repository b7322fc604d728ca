"""Nets that answer by another graph than they train by, for good or as long as their weights stand still.

Owns that graph: made once of a net, compiled anew each time that its weights have changed, as operators with joined
layers keep what they first saw. What is in it is `rewrites/joined_layers.py`'s.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional

from mxtrain.models import fallbacks
from mxtrain.models.compiled_graphs import AnsweringGraph, OperatorForAnswers
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import OF_PARAMETERS, AddNode, Inputs, Shapes
from mxtrain.models.rewrites.joined_layers import for_answers
from mxtrain.runtime import memory, mx
from mxtrain.runtime.types import Block, Symbol

# Takes a net's Symbol and the shapes of its inputs; returns another to answer by, if there is one.
Make = Callable[[Symbol, Shapes], Optional[Symbol]]


class AnswerSymbols(NamedTuple):
    """A net's graph to answer by: whole, and as `computed_once_apart` has it."""

    whole: Symbol
    apart: Symbol
    once: Symbol | None


def symbols_of(net: Block, make: Make = for_answers) -> AnswerSymbols | None:
    """Return what `make` makes of a net's graph; None where the net is no graph on CPUs, or has to keep its own."""
    made = graph_rewrites.graph_as_made(net)
    if made is None:
        return None
    if make not in made.others:
        plain = graph_rewrites.rewritten(made.output, made.shapes, made.needed_rewrites)
        made.others[make] = None
        try:
            whole = make(plain, made.shapes)
            made.others[make] = None if whole is None else AnswerSymbols(whole, *computed_once_apart(whole))
        except Exception as error:
            fallbacks.report(
                "the net's layers cannot be joined to answer by", error, fallbacks.ANSWERS_AS_IT_IS
            )
    found: AnswerSymbols | None = made.others[make]
    return found


def graph_of(net: Block, flags: Mapping[str, Any], make: Make = for_answers) -> AnsweringGraph | None:
    """Return `symbols_of` a net compiled with these flags of a CachedOp, to answer by its weights of now."""
    symbols, made = symbols_of(net, make), graph_rewrites.graph_as_made(net)
    if symbols is None or made is None:
        return None
    data = [name for name in made.output.list_inputs() if name in made.shapes]
    return AnsweringGraph(symbols.apart, symbols.once, dict(net.collect_params().items()), data, flags)


def answer_by(block: Block, make: Make = for_answers) -> OperatorForAnswers | None:
    """Have a compiled net answer by `graph_of` it, and train as before; return what does that, None if nothing."""
    answers = graph_of(block, dict(block._flags), make) if getattr(block, "_cached_op", None) else None
    if answers is None:
        return None
    block._cached_op = found = OperatorForAnswers(block, answers)
    return found


@contextlib.contextmanager
def standing_still(net: Block) -> Iterator[None]:
    """A block in which a compiled net's weights do not change, so that it answers by joined layers, if it can.

    Behind it all is as before, and what was computed of the weights is gone.
    """
    found = answer_by(net)
    try:
        yield
    finally:
        if found is not None:
            found.give_back()
            del found  # with folded weights, up to several times the net's
            memory.give_back_freed()


def computed_once_apart(symbol: Symbol) -> tuple[Symbol, Symbol | None]:
    """Return a Symbol that takes what is computed of parameters alone as inputs, and the Symbol that computes that.

    It has the names of the other's inputs as names of its outputs.
    """
    graph = json.loads(symbol.tojson())
    users = graph_rewrites.users_of(graph)
    once = [
        place
        for place, node in enumerate(graph["nodes"])
        if node["op"] in OF_PARAMETERS
        and any(graph["nodes"][user]["op"] not in OF_PARAMETERS for user in users[place])
    ]
    if not once:
        return symbol, None
    internals = symbol.get_internals()
    names = [f"{graph['nodes'][place]['name']}_output" for place in once]
    apart = graph_rewrites.with_replaced(graph, dict.fromkeys(once, _as_variable))
    return mx.sym.load_json(json.dumps(apart)), mx.sym.Group([internals[name] for name in names])


def _as_variable(node: Mapping[str, Any], inputs: Inputs, add: AddNode) -> int:
    return add({"op": "null", "name": f"{node['name']}_output", "inputs": []})
