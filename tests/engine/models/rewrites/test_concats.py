"""Nets that join any numbers of channels train: with MXNet's own concat most of these end the process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.repairs import concats
from mxtrain.runtime import mx
from tests.support.commands import ROOT

CPU = [mx.cpu()]
SIZE = 12


class Joined(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Two convolutions side by side, joined, and one more."""

    def __init__(self, *parts: int, dim: int = 1):
        super().__init__(prefix="")
        self.dim, self.num_parts = dim, len(parts)
        for number, channels in enumerate(parts):
            setattr(
                self, f"part{number}", mx.gluon.nn.Conv2D(channels, 1, in_channels=3, prefix=f"part{number}_")
            )
        self.last = mx.gluon.nn.Conv2D(32, 3, in_channels=sum(parts), prefix="last_")
        self.pool = mx.gluon.nn.GlobalAvgPool2D()
        self.flat = mx.gluon.nn.Flatten()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        parts = [getattr(self, f"part{number}")(x) for number in range(self.num_parts)]
        return self.flat(self.pool(self.last(F.concat(*parts, dim=self.dim))))


def gradients(net: Any, forward: Any, picture: Any) -> list[np.ndarray[Any, Any]]:
    with mx.autograd.record():
        loss = (forward(picture) ** 2).sum()
    loss.backward()
    return [parameter.grad().asnumpy().copy() for parameter in net.collect_params().values()]


def without_concat(net: Joined, picture: Any) -> Any:
    """The same sum: the last convolution over each part's channels by itself."""
    total, start = None, 0
    weight, bias = net.last.weight.data(), net.last.bias.data()
    for number in range(net.num_parts):
        part = getattr(net, f"part{number}")(picture)
        own = mx.nd.slice_axis(weight, axis=1, begin=start, end=start + part.shape[1])
        start += part.shape[1]
        out = mx.nd.Convolution(part, own, kernel=(3, 3), num_filter=32, no_bias=True)
        total = out if total is None else total + out
    return net.flat(net.pool(total + bias.reshape((1, -1, 1, 1))))


def test_inputs_of_a_concat_may_have_hidden_outputs() -> None:
    symbol = mx.sym.var("x")
    normed = mx.sym.BatchNorm(symbol, name="norm")
    halves = mx.sym.SliceChannel(normed, num_outputs=2, name="halves")
    joined = mx.sym.concat(halves[1], normed, dim=1, name="joined")
    _, shapes = shapes_of(joined, [], x=(2, 24, 5, 5))
    assert len(concats.unaligned_concats(json.loads(joined.tojson()), shapes)) == 1


def check(*parts: int, dim: int = 1) -> None:
    mx.random.seed(1)
    net = Joined(*parts, dim=dim)
    net.initialize(mx.init.Xavier())
    picture = mx.nd.random.normal(shape=(2, 3, SIZE, SIZE))
    expected = gradients(net, lambda data: without_concat(net, data), picture)
    zoo.compile(net, "joined", CPU, of_pictures(SIZE, 32))
    for ours, right in zip(gradients(net, net, picture), expected):
        np.testing.assert_allclose(ours, right, rtol=1e-4, atol=1e-5)


def test_a_concat_of_any_number_of_channels_trains() -> None:
    """One process trains all nets and prints each before it, so that a crash shows the net it was at."""
    nets = [
        (parts, dim)
        for parts in [(8, 8), (24, 24), (44, 44, 44, 44), (3, 13), (16, 16), (40, 24)]
        for dim in (1, -3)
    ]
    code = (
        f"from {__name__} import check\n"
        f"for parts, dim in {nets}:\n"
        "    print(parts, dim, flush=True)\n"
        "    check(*parts, dim=dim)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == len(nets)


def graph_of(channels: Any, dim: int = 1) -> Any:
    parts = [mx.sym.var(f"x{number}") for number in range(len(channels))]
    return mx.sym.concat(*parts, dim=dim, name="joined") * 2


def shapes_of(symbol: Any, channels: Any, ndim: int = 4, **more: Any) -> Any:
    shapes = {f"x{number}": (2, each, *[5] * (ndim - 2)) for number, each in enumerate(channels)}
    shapes.update(more)
    internals = symbol.get_internals()
    return shapes, dict(zip(internals.list_outputs(), internals.infer_shape(**shapes)[1]))


@pytest.mark.parametrize(
    ("channels", "dim", "ndim", "breaks"),
    [
        ((24, 24), 1, 4, True),
        ((16, 8), -3, 4, True),
        ((16, 32), 1, 4, False),
        ((24, 24), 2, 4, False),
        ((24, 24), 0, 4, False),
        ((24, 24), 1, 2, False),
        ((24, 24), 1, 5, False),
    ],
)
def test_only_concats_of_channels_that_are_no_whole_blocks_are_replaced(
    channels: tuple[int, ...], dim: int, ndim: int, breaks: bool
) -> None:
    symbol = graph_of(channels, dim)
    _, shapes = shapes_of(symbol, channels, ndim)
    graph = json.loads(symbol.tojson())
    found = concats.unaligned_concats(graph, shapes)
    assert [graph["nodes"][place]["name"] for place in found] == ["joined"] * breaks


def test_the_new_graph_computes_the_same_under_the_same_names() -> None:
    channels = (5, 1, 7)
    symbol = graph_of(channels)
    shapes, of_outputs = shapes_of(symbol, channels)
    graph = json.loads(symbol.tojson())
    new = mx.sym.load_json(json.dumps(concats.with_trainable_concats(graph, of_outputs)))
    assert new.list_arguments() == symbol.list_arguments()
    values = {name: mx.nd.random.normal(shape=shape) for name, shape in shapes.items()}
    (ours,), (right,) = (each.bind(mx.cpu(), values).forward() for each in (new, symbol))
    assert (ours.asnumpy() == right.asnumpy()).all()
    assert new.get_internals()["joined_output"].infer_shape(**shapes)[1] == [(2, 13, 5, 5)]


def test_casts_of_mixed_precision_stay_in_a_rewritten_graph() -> None:
    """Symbol.tojson leaves them out by itself, and the net would compute in float32."""
    narrow = mx.sym.amp_cast(graph_of((24, 24)), dtype="float16", name="cast")
    new = graph_rewrites.rewritten(narrow, shapes_of(narrow, (24, 24))[0], [concats.with_trainable_concats])
    operators = [node["op"] for node in json.loads(new.tojson(remove_amp_cast=False))["nodes"]]
    assert "amp_cast" in operators and "squeeze" in operators
