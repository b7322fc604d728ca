"""Nets of arrays: what is behind a sample's end changes nothing, and graphs compute what layers do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components import nets
from mxtrain.models.contract import Contract
from mxtrain.models.nets import zoo
from mxtrain.runtime import mx

VECTOR = {"a": (3,)}
SERIES = {"wave": (9, 2), **VECTOR}
VARYING = {"wave": (9, 2), "wave_mask": (9,), **VECTOR}
TWO = {"wave": (9, 2), "beat": (9, 1), **VECTOR}
TWO_LENGTHS = {"wave": (9, 2), "wave_mask": (9,), "beat": (12,), "beat_mask": (12,)}
SINGLE = {"beat": (9,), "beat_mask": (9,)}
NETS = {
    "mlp": ("mlp:hidden=8/4,norm=1,dropout=0.1", VECTOR),
    "mlp of two": ("mlp:hidden=8", SERIES),
    "conv1d": ("conv1d:channels=4/4,kernel=3", SERIES),
    "conv1d of a vector": ("conv1d:channels=4,norm=0", VECTOR),
    "conv1d, varying": ("conv1d:channels=4/4,dropout=0.1", VARYING),
    "lstm": ("lstm:hidden=4", SERIES),
    "lstm, varying": ("lstm:hidden=4,layers=2,norm=1,dropout=0.1", VARYING),
    "lstm of single numbers": ("lstm:hidden=4", SINGLE),
    "lstm of two series": ("lstm:hidden=4", TWO),
    "conv1d of two series": ("conv1d:channels=4/4", TWO_LENGTHS),
}


def made(name: str, compiled: bool = True) -> tuple[Any, dict[str, tuple[int, ...]]]:
    text, inputs = NETS[name]
    mx.random.seed(3)
    net = nets.build(text, inputs=inputs, outputs=2)
    net.initialize(mx.init.Xavier())
    if compiled:
        contract = Contract(tuple(inputs.values()), (2,), "sample", "arrays", "it has to give 2 numbers")
        zoo.compile(net, "mlp", [mx.cpu()], contract, None, 4)
    return net, inputs


def arrays_of(inputs: dict[str, tuple[int, ...]], lengths: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    found = []
    for name, shape in inputs.items():
        values = rng.normal(size=(len(lengths), *shape)).astype(np.float32)
        if name.endswith("_mask"):
            values = (np.arange(shape[0]) < np.array(lengths)[:, None]).astype(np.float32)
        found.append(values)
    return found


@pytest.mark.parametrize("name", NETS)
def test_a_net_is_a_graph_and_every_weight_learns(name: str) -> None:
    net, inputs = made(name)
    assert net._active
    values = [mx.nd.array(each) for each in arrays_of(inputs, (9, 5, 1, 7))]
    with mx.autograd.record():
        output = net(*values)
        loss = (output * output).sum()
    loss.backward()
    assert output.shape == (4, 2) and np.isfinite(output.asnumpy()).all()
    for parameter in net.collect_params().values():
        assert parameter.grad_req == "null" or np.abs(parameter.grad().asnumpy()).sum() > 0, parameter.name
    plain, _ = made(name, compiled=False)
    plain(*values)
    for own, other in zip(plain.collect_params().values(), net.collect_params().values()):
        own.set_data(other.data())
    np.testing.assert_allclose(plain(*values).asnumpy(), net(*values).asnumpy(), atol=1e-5)


@pytest.mark.parametrize("name", ["conv1d, varying", "lstm, varying", "lstm of single numbers"])
def test_what_is_behind_the_end_changes_nothing(name: str) -> None:
    net, inputs = made(name)
    whole = arrays_of(inputs, (9, 4, 1))
    before = net(*map(mx.nd.array, whole)).asnumpy()
    whole[0][1, 4:] = 1e3
    np.testing.assert_allclose(net(*map(mx.nd.array, whole)).asnumpy(), before, atol=1e-5)
    # A micro-batch of shorter samples is shorter, and its answers are the same.
    short = [each[1:, :4] if name != "a" else each[1:] for name, each in zip(inputs, whole)]
    np.testing.assert_allclose(net(*map(mx.nd.array, short)).asnumpy(), before[1:], atol=1e-5)


def test_convolutions_see_twice_as_far_in_each_layer() -> None:
    net = nets.build("conv1d:channels=2/2/2,kernel=3,norm=0", inputs={"wave": (40, 1)}, outputs=1)
    net.initialize(mx.init.One())
    steps = mx.nd.zeros((1, 40, 1))
    steps.attach_grad()
    branch = net.branches[0]
    with mx.autograd.record():
        found = mx.nd.transpose(steps + 1, (0, 2, 1))
        for layer in branch.layers:
            found = layer(found)
        middle = found[0, 0, 20]
    net(steps)
    middle.backward()
    reached = np.flatnonzero(steps.grad.asnumpy().ravel())
    assert (reached.min(), reached.max()) == (20 - 7, 20 + 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mlp:hidden=0", "give 1 to"),
        ("mlp:hidden=8/x", "not a whole number"),
        ("lstm:layer=2", "did you mean 'layers'"),
        ("conv1d:dropout=1", "give 0 to 0.99"),
    ],
)
def test_numbers_of_nets_are_checked(text: str, words: str) -> None:
    from mxtrain.config.components import nets
    from mxtrain.core.errors import UsageError

    assert nets.parse("mlp:hidden=16/8").hyperparameters["hidden"] == (16, 8)
    with pytest.raises(UsageError) as refused:
        nets.parse(config.parse(["--task", "arrays", "--model", text]).model.model)
    assert words in str(refused.value)
