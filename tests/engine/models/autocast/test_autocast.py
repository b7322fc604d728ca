"""Which operators run in bfloat16, by times that are given here, and the casts around them."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config import autocast_costs
from mxtrain.doctor import __main__ as doctor
from mxtrain.doctor.machine import bf16_times
from mxtrain.models.autocast import autocast, min_cut
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train.net import build_net
from tests.support.amp import ALL_NARROW, BF16, needs_bf16
from tests.support.nets.training_steps import CLASSES, arrays, assert_equal, context_of, train

RELU = "Activation relu"
SPATIAL, DEPTHWISE = "convolution 2D, spatial, few channels", "convolution 2D, depthwise, whole blocks"


def times(cast: float = 0.1, **changes: Mapping[str, Mapping[str, float]]) -> autocast_costs.Times:
    """Times by which spatial convolutions gain, depthwise ones lose, and ReLUs do not care."""
    products = {SPATIAL: {"float32": 100.0, "bfloat16": 200.0}, DEPTHWISE: {"float32": 50.0, "bfloat16": 5.0}}
    elements = {RELU: {"float32": 1.0, "bfloat16": 1.0}}
    return autocast_costs.Times({**products, **changes}, elements, cast, 1.0, "AVX512_CORE_BF16", "hash")


def convolution(x: Any, number: int, groups: int = 1) -> Any:
    sizes: dict[str, Any] = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 32, "num_group": groups}
    return mx.sym.Convolution(x, **sizes, no_bias=True, name=f"conv{number}")


def nodes_of(symbol: Any, narrowing: autocast.Autocast, size: int = 28) -> list[dict[str, Any]]:
    new = graph_rewrites.rewritten(symbol, {"x": (8, 32, size, size)}, [narrowing])
    assert new.list_outputs() == symbol.list_outputs() and new.list_arguments() == symbol.list_arguments()
    nodes: list[dict[str, Any]] = json.loads(new.tojson(remove_amp_cast=False))["nodes"]
    return nodes


def casts(nodes: list[dict[str, Any]]) -> list[str]:
    """What is cast to what, without weights."""
    found = [node for node in nodes if node["op"] == "amp_cast"]
    named = [(nodes[node["inputs"][0][0]]["name"], node["attrs"]["dtype"]) for node in found]
    return [f"{name} to {dtype}" for name, dtype in named if not name.endswith("weight")]


def test_no_cast_is_between_two_operators_that_run_narrow() -> None:
    x = convolution(mx.sym.Activation(convolution(mx.sym.var("x"), 0), act_type="relu", name="relu"), 1)
    narrowing = autocast.Autocast(times())
    nodes = nodes_of(x, narrowing)
    assert casts(nodes) == ["x to bfloat16", "conv1_narrow to float32"]
    assert narrowing.forecast.share == 1 and 1.5 < narrowing.forecast.speed < 2


def test_what_is_slower_stays_float32_and_so_does_the_rest_where_casts_cost_more_than_is_gained() -> None:
    x = convolution(convolution(convolution(mx.sym.var("x"), 0), 1, groups=32), 2)
    narrowing = autocast.Autocast(times())
    assert casts(nodes_of(x, narrowing)) == [
        *("x to bfloat16", "conv0 to float32", "conv1 to bfloat16", "conv2_narrow to float32")
    ]
    assert 0.9 < narrowing.forecast.share < 1
    dear = autocast.Autocast(times(cast=1e3))
    assert casts(nodes_of(x, dear)) == [] and dear.forecast.share == 0 and dear.forecast.speed == 1


def test_a_value_is_cast_once_for_all_that_use_it() -> None:
    x = convolution(mx.sym.var("x"), 0)
    several = convolution(x, 1, groups=32) + convolution(x, 2, groups=32)
    assert casts(nodes_of(several, autocast.Autocast(times()))) == ["x to bfloat16", "conv0 to float32"]


def test_a_gain_that_is_too_small_is_left() -> None:
    x = convolution(mx.sym.var("x"), 0)
    for least, share in ((1.0, 1), (3.0, 0)):
        narrowing = autocast.Autocast(times(), least)
        nodes_of(x, narrowing)
        assert narrowing.forecast.share == share


def test_a_class_without_times_and_a_wrong_kernel_stay_float32() -> None:
    x = convolution(mx.sym.var("x"), 0)
    unknown = autocast.Autocast(autocast_costs.Times({}, {}, 0.0, 1.0, "AVX512_CORE_BF16", "hash"))
    assert casts(nodes_of(x, unknown)) == [] and unknown.forecast.speed == autocast.Forecast().speed == 1
    wide = mx.sym.Convolution(
        mx.sym.var("x"), kernel=(3, 3), pad=(1, 1), stride=(2, 2), num_filter=32, no_bias=True, name="conv0"
    )
    assert len(casts(nodes_of(wide, autocast.Autocast(times())))) == 2
    assert casts(nodes_of(wide, autocast.Autocast(times()), size=1)) == [], "oneDNN computes it wrong"


def test_a_cut_is_the_cheapest_of_all() -> None:
    draw = random.Random(0)
    for _ in range(100):
        inner = list(range(5))
        pairs = [(draw.choice(["s", *inner]), draw.choice([*inner, "t"])) for _ in range(14)]
        edges = [(start, end, draw.randrange(9)) for start, end in pairs if start != end]
        divisions = [{"s", *chosen} for size in range(6) for chosen in itertools.combinations(inner, size)]

        def capacity(side: set[Any], edges: Any = edges) -> int:
            return sum(each for start, end, each in edges if start in side and end not in side)

        best = min(divisions, key=lambda side: (capacity(side), len(side)))
        assert min_cut.side_of_source(edges, "s", "t") == best


@needs_bf16
def test_a_cast_pair_that_is_left_out_changes_no_bit() -> None:
    """Rounding what is rounded, there and in the backward pass, changes nothing."""
    graph = json.loads(convolution(mx.sym.relu(convolution(mx.sym.var("x"), 0)), 1).tojson())
    places = [place for place, node in enumerate(graph["nodes"]) if node["op"] == "Convolution"]
    between = next(place for place, node in enumerate(graph["nodes"]) if node["op"] == "relu")
    rng, found = np.random.default_rng(0), []
    shapes = {"x": (2, 32, 8, 8), "conv0_weight": (32, 32, 3, 3), "conv1_weight": (32, 32, 3, 3)}
    values = {name: mx.nd.array(rng.standard_normal(shape)) for name, shape in shapes.items()}
    for chosen in ({*places}, {*places, between}):
        symbol = mx.sym.load_json(json.dumps(autocast.with_casts(graph, chosen)))
        gradients = {name: mx.nd.zeros(shape) for name, shape in shapes.items()}
        bound = symbol.bind(mx.cpu(), dict(values), args_grad=gradients)
        (output,) = bound.forward(is_train=True)
        bound.backward(mx.nd.ones(output.shape))
        found.append([output.asnumpy(), *(each.asnumpy() for each in gradients.values())])
    for with_pair, without in zip(*found):
        np.testing.assert_array_equal(with_pair, without)


@needs_bf16
def test_one_process_trains_in_bfloat16_and_then_in_float32_to_the_bit() -> None:
    before = context_of("--micro-batch 4 --batch-size 16")
    losses = train(before, 2)
    narrow_context = context_of(f"--micro-batch 4 --batch-size 16 {BF16}")
    assert narrow_context.built.forecast.share > 0.9
    narrow_losses = train(narrow_context, 2)
    assert narrow_losses != losses and narrow_losses == pytest.approx(losses, rel=0.05)
    after = context_of("--micro-batch 4 --batch-size 16")
    assert train(after, 2) == losses
    assert_equal(arrays(after), arrays(before))


@needs_bf16
def test_auto_says_what_it_takes_and_why_not(caplog: pytest.LogCaptureFixture) -> None:
    """Of a net too small to gain, and of one that gains by the table given."""
    for table, share, words in (
        ("", 0, "float32, as by the table"),
        (f"--amp-table {ALL_NARROW}", 1, "of the FLOPs run in bfloat16; by the table"),
    ):
        caplog.clear()
        with caplog.at_level("INFO", logger="mxtrain"):
            context = context_of(f"--micro-batch 4 --batch-size 16 --amp auto {table}")
        assert round(context.built.forecast.share) == share
        assert [record.message for record in caplog.records if words in record.message]
    on_gpu = precision.summary("auto", "gpu", precision.autocast_of(config.Model(amp="auto"), "gpu"))
    assert "float32" in on_gpu and "--amp fp16" in on_gpu


@needs_bf16
@pytest.mark.parametrize("name", ["imperative_net"])
def test_a_net_that_does_not_compile_is_told_that_it_stays_float32(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = config.parse(
        [
            "--train",
            "t.rec",
            "--image-size",
            "24",
            "--model",
            f"tests.support.nets.user_net:{name}",
            *BF16.split(),
        ]
    )
    with caplog.at_level("WARNING", logger="mxtrain"):
        built = build_net.build_to_train(Classification.numbered(run, CLASSES), [mx.cpu()])
    assert "runs imperatively and in float32" in caplog.text and built.forecast.share == 0


@needs_bf16
def test_doctor_writes_a_table_that_runs_can_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two classes and in a moment; all of them take minutes."""
    monkeypatch.setattr(bf16_times, "SECONDS", 0)
    monkeypatch.setattr(bf16_times, "PRODUCTS", [bf16_times.convolution(16, (8, 8))])
    monkeypatch.setattr(bf16_times, "LARGE_BATCH", 1)
    monkeypatch.setattr(
        bf16_times, "ELEMENTS", [bf16_times.between_convolutions(bf16_times.ELEMENTS[0].link)]
    )
    path = tmp_path / "own.json"
    doctor.doctor(["--measure-bf16", str(path)])
    found = autocast_costs.of_run("bf16", str(path))
    assert found and set(found.products) == {SPATIAL} and set(found.elements) == {RELU, "any other"}
    shipped = autocast_costs.of_run("bf16", "")
    assert shipped is None or found.digest != shipped.digest
