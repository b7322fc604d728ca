"""What symbols hold and compute, to compare a rewritten graph with the one it was made from."""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

import numpy as np

from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx


def operators(symbol: Any) -> list[str]:
    """Return the names of all operators, `null` for a variable, in the order of the graph."""
    return [node["op"] for node in json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]]


def computed(symbol: Any, values: Mapping[str, Any], gradient: Any) -> list[Any]:
    """Return the output, and the gradients of all `values`, where `gradient` is that of the output."""
    gradients = {name: mx.nd.zeros(np.shape(value)) for name, value in values.items()}
    arrays = {name: mx.nd.array(value) for name, value in values.items()}
    bound = symbol.bind(mx.cpu(), arrays, args_grad=gradients)
    (output,) = bound.forward(is_train=True)
    bound.backward(mx.nd.array(gradient))
    return [output.asnumpy(), *(each.asnumpy() for each in gradients.values())]


def values_of(symbol: Any, shape: Sequence[int]) -> dict[str, Any]:
    """Return arrays for a symbol of `data` of this shape, by which no layer makes numbers much larger or smaller."""
    draw = np.random.default_rng(1)
    sizes, _, states = symbol.infer_shape(data=shape)
    values = {}
    for name, size in zip(symbol.list_arguments(), sizes):
        scale = 1 if len(size) != 4 or name == "data" else (2 / np.prod(size[1:])) ** 0.5
        values[name] = draw.normal(0, scale, size)
    for name, size in zip(symbol.list_auxiliary_states(), states):
        values[name] = draw.uniform(0.5, 2, size)
    return {name: mx.nd.array(value) for name, value in values.items()}


def forward(symbol: Any, values: Mapping[str, Any]) -> Any:
    """Return the output, where nothing is trained; `values` are arrays of MXNet's."""
    return mx.nd.CachedOp(symbol, [])(*(values[name] for name in symbol.list_inputs())).asnumpy()


def answered(symbol: Any, like: Any, shape: Sequence[int]) -> list[Any]:
    """Return the outputs by running statistics, for an `x` of this shape, of values drawn for the symbol `like`."""
    draw = np.random.RandomState(1)
    shapes, _, states = like.infer_shape(x=shape)
    values = {name: mx.nd.array(draw.normal(size=each)) for name, each in zip(like.list_arguments(), shapes)}
    running = zip(like.list_auxiliary_states(), states)
    values.update({name: mx.nd.array(draw.uniform(0.5, 2, each)) for name, each in running})
    found = mx.nd.CachedOp(symbol)(*(values[name] for name in symbol.list_inputs()))
    return [each.asnumpy() for each in (found if isinstance(found, list) else [found])]


def net_operators_and_gradients(
    model: str, image_size: int, rewrites: Sequence[Any]
) -> tuple[list[str], Any]:
    """Return the operators of a compiled net of random weights, and all gradients of one step as one vector."""
    mx.random.seed(3)
    net = zoo.build(model, 4)
    net.initialize(mx.init.Xavier(), force_reinit=True)
    with graph_rewrites.rewriting(rewrites):
        net.hybridize(static_alloc=True, static_shape=True)
        net(mx.nd.zeros((1, 3, image_size, image_size)))
        mx.random.seed(4)
        with mx.autograd.record():
            loss = (net(mx.nd.random.normal(shape=(4, 3, image_size, image_size))) ** 2).sum()
        loss.backward()
    trained = [each for each in net.collect_params().values() if each.grad_req != "null"]
    return operators(net._cached_graph[1]), np.concatenate(
        [each.grad().asnumpy().ravel() for each in trained]
    )
