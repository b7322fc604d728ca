"""What `evaluate --graph` says of nets: the numbers of what MXNet computes, and those that are published."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.export import inference_graph
from mxtrain.export.drawing import net_graph, net_words
from mxtrain.models.analysis import flops, layer_table
from mxtrain.models.analysis.layer_table import Net, Part
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.train.net import build_net
from tests.support.nets import gpt_nets

# Parameters and thousands of millions of multiply-adds, as torchvision publishes them of its nets of the same names;
# of SENet-154 its authors. Inception's are without its auxiliary classifier's 3,326,696, MobileNetV2's without the 1000
# biases, which GluonCV's has not; MobileNetV3's multiply-adds alone are the same.
PUBLISHED = {
    "alexnet": (61_100_840, 0.714),
    "densenet121": (7_978_856, 2.834),
    "googlenet": (6_624_904, 1.498),
    "inceptionv3": (27_161_264 - 3_326_696, 5.713),
    "mobilenetv2_1.0": (3_504_872 - 1000, 0.301),
    "mobilenetv3_large": (None, 0.217),
    "resnet18_v1b": (11_689_512, 1.814),
    "resnet50_v1b": (25_557_032, 4.089),
    "resnext50_32x4d": (25_028_904, 4.230),
    "senet_154": (115_088_984, 20.7),
    "squeezenet1.1": (1_235_496, 0.349),
    "vgg16_bn": (138_365_992, 15.470),
}


def by_name(name: str, **wish: Any) -> Net:
    with net_graph.opened(Path(name), None, net_graph.GraphOptions(**wish)) as found:
        return net_graph.table_of(found)


@pytest.mark.parametrize("name", PUBLISHED)
def test_numbers_of_known_nets_are_those_that_are_published(name: str) -> None:
    parameters, billions = PUBLISHED[name]
    sums = layer_table.sums(by_name(name, image_size="299" if name == "inceptionv3" else "224"))
    assert parameters in (None, sums.num_trained)
    assert sums.flops is not None and sums.flops / 2e9 == pytest.approx(
        billions, abs=0.0006 if billions < 20 else 0.05
    )


@pytest.mark.parametrize(
    "name",
    ["cifar_resnet20_v1", "mobilenetv3_small", pytest.param("hrnet_w18_small_v1_c", marks=pytest.mark.slow)],
)
def test_sums_are_those_of_the_net_and_memory_is_that_of_its_arrays(name: str) -> None:
    run = config.parse(["--model", name, "--image-size", "64", "--amp", "off"])
    task = Classification.numbered(run, 7)
    net = build_net.build_to_train(task, [mx.cpu()]).net
    counted = flops.of_net(net, [(1, 3, 64, 64)])
    table = net_graph.table_of(net_graph.DescribedNet(name, task, net, None, None))
    sums, parameters = layer_table.sums(table), weights.named_parameters(net).values()
    assert sums.num_parameters == sum(parameter.data().size for parameter in parameters)
    assert sums.num_trained == sum(each.data().size for each in parameters if each.grad_req != "null")
    assert counted and sums.flops == sum(each.forward for each in counted) > 0
    assert sums.backward_flops == sum(each.backward for each in counted)

    graph = inference_graph.of_net(net, task)
    internals = graph.symbol.get_internals()
    names = [
        name
        for name in internals.list_outputs()
        if name not in {**graph.arguments, **graph.auxiliaries, "data": 0}
    ]
    inner = mx.sym.Group([internals[name] for name in names])
    values = {**graph.arguments, **graph.auxiliaries, "data": mx.nd.ones((1, 3, 64, 64))}
    computed = mx.nd.CachedOp(inner)(*(values[name] for name in inner.list_inputs()))
    arrays = dict(zip(inner.list_outputs(), computed))
    checked = 0
    for operator in table.operators:
        own = [arrays[n] for n in (f"{operator.name}_output", f"{operator.name}_output0") if n in arrays]
        assert operator.shape == own[0].shape
        if operator.output_bytes and len(own) == 1 and f"{operator.name}_output" in arrays:
            assert operator.output_bytes == own[0].asnumpy().nbytes
            checked += 1
    assert checked > 0.7 * len(table.operators)


def test_memory_to_answer_frees_what_is_not_needed_any_more() -> None:
    class Residual(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = mx.gluon.nn.Dense(50), mx.gluon.nn.Dense(10)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.second(self.first(x)) + x

    table = of_own(Residual(), (1, 10))
    # The second layer's inputs, its output, and what the sum still needs.
    assert layer_table.inference_bytes(table) == 4 * (10 + 50 + 10)
    assert layer_table.sums(table).output_bytes == 4 * (50 + 10 + 10)


def test_a_block_that_is_called_twice_is_there_twice_and_its_weights_once() -> None:
    class Twice(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mx.gluon.nn.HybridSequential()
            self.inner.add(mx.gluon.nn.Dense(8, flatten=False), mx.gluon.nn.Activation("relu"))

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.reshape(self.inner(self.inner(x)), (-1,))

    table = of_own(Twice(), (2, 8))
    first, second, operator = table.root.content
    assert [first.path, second.path, first.class_name] == ["inner", "inner", "HybridSequential"]
    assert isinstance(operator, int) and table.operators[operator].operator_type.lower() == "reshape"
    assert [layer_table.sums(table, each).num_parameters for each in (first, second)] == [72, 0]
    assert layer_table.sums(table, first).flops == layer_table.sums(table, second).flops == 2 * 2 * 8 * 8


def of_own(net: Any, shape: tuple[int, ...]) -> Net:
    from mxtrain.models.analysis import block_calls

    with block_calls.recorded(net) as calls:
        symbol = net(mx.sym.var("data"))
    trained = set(net.collect_params())
    return layer_table.of_symbol(symbol, calls, {"data": shape}, trained)


def test_a_language_model_has_the_operations_that_one_counts_by_hand() -> None:
    layers, heads, width, window = 2, 2, 16, 12
    name = f"gpt:layers={layers},heads={heads},width={width}"
    run = dataclasses.replace(config.parse(["--task", "lm", "--model", name, "--window", str(window)]))
    from mxtrain.tasks.lm import LanguageModel

    task = LanguageModel(
        run, {"tokenizer": "bytes", "vocab_size": gpt_nets.WORDS, "end_token": 0, "window": window}
    )
    table = net_graph.table_of(net_graph.DescribedNet(name, task, task.build_net(), None, None))
    of_layer = 12 * width**2 * window + 2 * window**2 * width
    assert layer_table.sums(table).flops == 2 * (layers * of_layer + width * gpt_nets.WORDS * window)
    blocks = [each for each in table.root.content if isinstance(each, Part) and each.class_name == "Layer"]
    assert {layer_table.sums(table, each).flops for each in blocks} == {2 * of_layer} and len(
        blocks
    ) == layers


def test_the_table_fits_a_terminal_and_blocks_are_the_sums_of_what_is_in_them() -> None:
    table = by_name("resnet50_v1b")
    lines = net_words.table(table).splitlines()
    assert max(map(len, lines)) <= 100 and 20 < len(lines) <= net_words.LONGEST + 2
    assert max(map(len, net_words.table(table, 99).splitlines())) <= 100
    for row in net_words.layers(table):
        if isinstance(row.what, Part):
            inner = [layer_table.sums(table, each) for each in row.what.content]
            assert row.sums.num_parameters == sum(each.num_parameters for each in inner)
            assert row.sums.output_bytes == sum(each.output_bytes for each in inner)
    whole = layer_table.sums(table)
    outermost = [row.sums for row in net_words.layers(table, 1)]
    assert sum(each.flops or 0 for each in outermost) == whole.flops
    assert math.isclose(sum(each.num_parameters for each in outermost), whole.num_parameters)


@pytest.mark.parametrize(
    ("name", "wish", "said"),
    [
        ("resnet50_v1bb", {}, "did you mean resnet50_v1b"),
        ("mlp", {}, "give the run"),
        ("gpt_1m", {"num_classes": 3}, "neither --image-size nor --num-classes"),
        ("vgg16", {"image_size": "8"}, "does not take pictures of --image-size 8"),
        ("small_cnn", {"depth": 0}, "--depth 0"),
        ("small_cnn", {"picture": Path("net.png")}, "ends with .html or .svg"),
        ("small_cnn", {"picture": Path("/no/such/net.svg")}, "there is no folder /no/such"),
        ("small_cnn", {"picture": Path()}, "say which file"),
        ("small_cnn", {"onnx": Path("/")}, "is a folder"),
        ("tests.support.nets.user_net:nothing_there", {}, "nothing_there"),
        ("tests.support.nets.hostile_nets:plain", {}, "cannot be traced into a graph"),
    ],
)
def test_what_cannot_be_shown_is_refused(name: str, wish: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        net_graph.show(Path(name), None, net_graph.GraphOptions(**wish))
    assert said in str(refused.value)


def test_json_says_of_an_operator_what_it_always_has() -> None:
    with net_graph.opened(Path("small_cnn"), None, net_graph.GraphOptions()) as described_net:
        operators = net_words.as_json("a net", net_graph.table_of(described_net), {})["operators"]
    first = ["name", "kind", "attributes", "inputs", "takes_input", "shape", "parameters", "numbers"]
    assert list(operators[0]) == [*first, "trained_shapes", "flops", "backward_flops", "output_bytes"]
    assert operators[0]["kind"] == "Convolution"
