"""Nets that answer: what is computed of their weights is computed by the first answer alone."""

from __future__ import annotations

import json
from typing import Any, Callable, Collection

from mxtrain.models import answers
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import joined_layers
from mxtrain.runtime import mx
from mxtrain.train.net import build_net


def weights_taken_once(
    name: str, operators: Collection[str], assert_close: Callable[[Any, Any], None]
) -> list[str]:
    """Return the weights of a zoo's net that these operators take, after it has answered pictures of two sizes.

    Its answers are MXNet's, and stay as they were once those weights are zeros.
    """
    with build_net.compiling("off"):
        net = zoo.build(name, 5)
        net.initialize(mx.init.Xavier())
        net.hybridize(static_alloc=True, static_shape=True)
        pictures = [mx.nd.random.normal(shape=shape) for shape in ((2, 3, 64, 64), (1, 3, 96, 80))]
        right = [net(data).asnumpy() for data in pictures]
        made: list[Any] = []

        def make(*graph_and_shapes: Any) -> Any:
            made.append(joined_layers.for_answers(*graph_and_shapes))
            return made[-1]

        assert answers.answer_by(net, make)
        found = [net(data).asnumpy() for data in pictures]
        for each, expected in zip(found, right):
            assert_close(each, expected)
        nodes = json.loads(made[0].tojson())["nodes"]
        taken = [nodes[node["inputs"][0][0]]["name"] for node in nodes if node["op"] in operators]
        for weight in taken:
            parameter = net.collect_params()[weight]
            parameter.set_data(mx.nd.zeros_like(parameter.data()))
        assert net(pictures[0]).asnumpy().tobytes() == found[0].tobytes()
        return taken
