"""Evaluations compute runs of depthwise layers by our operator: alike however a net is held, by the weights of now."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain import native
from mxtrain.models import chosen_rewrites
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import weights
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx
from mxtrain.runtime.own_operators import DEPTHWISE_NORM, NORM, NORM_DEPTHWISE_NORM
from mxtrain.train.context import TrainContext
from mxtrain.train.held import choice
from tests.support.breadth import slow_cases
from tests.support.nets import training_steps
from tests.support.nets.held_steps import net_job, steps
from tests.support.nets.mobile_net import QUICK_MOBILE, SOME_NORMS, quick_mobile
from tests.support.nets.symbols import forward, operators
from tests.support.nets.threads import assert_same_bits_of_any_threads, needs_own_operators

pytestmark = needs_own_operators
OURS = (NORM, DEPTHWISE_NORM, NORM_DEPTHWISE_NORM)
FROZEN = f"--freeze {SOME_NORMS}"
REMAT, STAGES, HELD = "--remat", "--stages 2 --devices cpu:0,1", "--hold layers"
SHAPE = (5, 3, training_steps.SIZE, training_steps.SIZE)


def pictures(count: int = SHAPE[0]) -> Any:
    return mx.nd.array(np.random.default_rng(7).standard_normal((count, *SHAPE[1:])))


def trained(flags: str = "", num_steps: int = 2, net: str = QUICK_MOBILE) -> TrainContext:
    context = choice.context_of(net_job(f"--micro-batch 4 {flags}", net))
    list(steps(context, num_steps))
    return context


def answers(context: TrainContext, count: int = SHAPE[0]) -> Any:
    return context.net(pictures(count)).asnumpy()


def symbols(model: Any, shape: tuple[int, ...] = SHAPE) -> tuple[Any, Any]:
    """Return what MXNet's operators judge by, and what ours do."""
    shapes = {"data": shape}
    plain = graph_rewrites.rewritten(model(mx.sym.var("data")), shapes, chosen_rewrites.rewrites(None))
    return plain, graph_rewrites.rewritten(plain, shapes, chosen_rewrites.JUDGING_REWRITES)


def values_for(symbol: Any, shape: tuple[int, ...] = SHAPE) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    shapes, _, states = symbol.infer_shape(data=shape)
    sizes = [*zip(symbol.list_arguments(), shapes), *zip(symbol.list_auxiliary_states(), states)]
    found = {name: draw.normal(0.2, 0.5, size) for name, size in sizes}
    found.update({name: draw.uniform(0.5, 2, size) for name, size in sizes if name.endswith("var")})
    return {name: mx.nd.array(value) for name, value in found.items()}


@pytest.mark.parametrize(
    "model", ["mobilenetv2_0.25", "mobilenetv3_small", pytest.param("xception", marks=pytest.mark.slow)]
)
def test_all_runs_are_ours_and_give_the_values_of_mxnet(model: str) -> None:
    shape = (2, 3, 139, 139) if model == "xception" else (2, 3, 64, 64)
    plain, ours = symbols(zoo.build(model, 5), shape)
    assert set(OURS) & set(operators(ours))
    # Some of xception's stay, as a sum or a pooling leads from them to a norm with its ReLU joined.
    assert model == "xception" or not _depthwise(ours)
    assert ours.list_inputs() == plain.list_inputs() and ours.list_outputs() == plain.list_outputs()
    values = values_for(plain, shape)
    right = forward(plain, values)
    np.testing.assert_allclose(forward(ours, values), right, rtol=1e-3, atol=1e-4 * np.abs(right).max())


def _depthwise(symbol: Any) -> list[str]:
    nodes = json.loads(symbol.tojson())["nodes"]
    return [each["name"] for each in nodes if int(each.get("attrs", {}).get("num_group", 1)) > 1]


def test_norms_that_are_frozen_are_ours_as_others_are() -> None:
    """The checkpoint of a run with `--freeze` is evaluated by a net without."""
    net = quick_mobile(4)
    _, usual = symbols(net)
    for layer in net:
        if isinstance(layer, mx.gluon.nn.BatchNorm):
            layer._kwargs["use_global_stats"] = True
    plain, frozen = symbols(net)
    assert operators(frozen) == operators(usual)
    assert not set(OURS) & set(
        operators(graph_rewrites.rewritten(plain, {"data": SHAPE}, chosen_rewrites.TRAINING_REWRITES))
    )


@pytest.mark.parametrize(("first", "last", "operator"), [(4, 6, NORM), (11, 17, NORM_DEPTHWISE_NORM)])
def test_a_sample_has_the_bits_of_any_batch_and_threads(first: int, last: int, operator: str) -> None:
    shape = (5, 16, 9, 9)
    _, ours = symbols(lambda data: quick_mobile(4)[first:last](data), shape)
    assert operators(ours).count(operator) == 1
    values = values_for(ours, shape)
    whole = forward(ours, values)
    for place in range(len(whole)):
        alone = {**values, "data": values["data"][place : place + 1]}
        assert forward(ours, alone).tobytes() == whole[place : place + 1].tobytes()
    assert_same_bits_of_any_threads(lambda: [forward(ours, values)])


@pytest.mark.parametrize(
    "freeze", [*slow_cases(""), FROZEN]
)  # tests/engine/train/test_evaluation_graphs.py has the first
def test_the_bits_are_those_of_any_way_to_hold_the_net(freeze: str) -> None:
    whole = trained(freeze)
    for way in (REMAT, STAGES, HELD):
        other = trained(f"{freeze} {way}")
        for count in (1, SHAPE[0]):
            assert answers(other, count).tobytes() == answers(whole, count).tobytes(), way
    thawed = trained(num_steps=0)
    _copy_weights(whole, thawed)
    assert answers(thawed).tobytes() == answers(whole).tobytes()


def _copy_weights(whole: TrainContext, other: TrainContext) -> None:
    named = training_steps.arrays(whole)
    for name, parameter in weights.named_parameters(other.net).items():
        parameter.set_data(mx.nd.array(named[name]))


def test_the_bits_are_those_of_any_device() -> None:
    whole, other = trained(), trained("--devices cpu:0,1,2")
    found = {other.net(pictures().as_in_context(each)).asnumpy().tobytes() for each in other.devices}
    assert len(other.devices) == 3 and found == {answers(whole).tobytes()}


@pytest.mark.slow  # tests/engine/train/test_evaluation_graphs.py has evaluations by joined layers
@pytest.mark.parametrize("way", ["", REMAT, STAGES, HELD])
def test_an_evaluation_is_by_the_weights_of_now(way: str) -> None:
    context, undisturbed = trained(way, num_steps=0), trained(way, num_steps=3)
    before = answers(context)
    list(steps(context, 3))
    after = answers(context)
    assert not np.allclose(after, before)
    assert after.tobytes() == answers(undisturbed).tobytes()


@pytest.mark.parametrize("way", ["", STAGES])
@pytest.mark.parametrize("net", [QUICK_MOBILE, training_steps.QUICK_RESNET])
def test_gradients_of_answers_are_those_of_an_imperative_net(net: str, way: str) -> None:
    """Of passes that compute with running statistics and are recorded, as for a picture of what an answer hangs on."""
    context, plain = trained(way, net=net), trained(net=net)
    before = answers(context)
    plain.net.hybridize(active=False)
    found, right = _input_gradient(context.net), _input_gradient(plain.net)
    assert np.abs(right).max() > 0
    np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5 * np.abs(right).max())
    assert answers(context).tobytes() == before.tobytes()


def _input_gradient(net: Any) -> Any:
    data = pictures()
    data.attach_grad()
    with mx.autograd.record(train_mode=False):
        total = net(data).sum()
    total.backward(train_mode=False)
    return data.grad.asnumpy()


def test_nets_without_runs_stay_as_they_are() -> None:
    plain, ours = symbols(zoo.build("resnet18_v1b", 5), (1, 3, 64, 64))
    assert ours is plain


def test_without_the_part_in_c_evaluations_are_mxnets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "OPERATORS", None)
    plain, ours = symbols(quick_mobile(4))
    assert ours is plain and "BatchNorm" in "".join(operators(plain))
