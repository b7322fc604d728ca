"""BatchNorms between convolutions of unlike blocks go back by oneDNN's fast kernels."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mxtrain.core.system import kernels
from mxtrain.models.autocast import autocast
from mxtrain.models.rewrites import graph_rewrites, norm_relus, plain_arrays
from mxtrain.runtime import mx
from tests.support.processes.fresh_python import run

HAS_BLOCKS_OF_16 = kernels.onednn().startswith(kernels.AVX512)


def block(first: int, wide: int, last: int) -> Any:
    """Return the graph of mobilenetv2's block: wider by a convolution, each channel by itself, narrower."""
    x = mx.sym.var("x")
    for number, (kernel, channels, groups) in enumerate([(1, wide, 1), (3, wide, wide), (1, last, 1)]):
        x = mx.sym.Convolution(
            x,
            kernel=(kernel,) * 2,
            pad=(kernel // 2,) * 2,
            num_filter=channels,
            num_group=groups,
            no_bias=True,
        )
        x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"norm{number}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{number}")
    return mx.sym.Convolution(x, kernel=(1, 1), num_filter=32, no_bias=True, name="end")


def rewritten(symbol: Any, channels: int, **more: Any) -> Any:
    return graph_rewrites.rewritten(
        symbol, {"x": (2, channels, 14, 14), **more}, [plain_arrays.with_plain_arrays]
    )


@pytest.mark.parametrize(
    ("channels", "found"),
    [
        ((24, 144, 24), ["norm0_plain", "norm1_plain"]),
        ((16, 96, 24), ["norm1_plain"]),
        ((16, 96, 32), []),
        ((3, 32, 32), []),  # a first convolution reads colours as they are
        ((24, 40, 24), []),  # blocks of 8 throughout
    ],
)
def test_only_where_blocks_differ_a_node_follows(channels: tuple[int, int, int], found: list[str]) -> None:
    symbol = block(*channels)
    new = rewritten(symbol, channels[0])
    names = [node["name"] for node in json.loads(new.tojson())["nodes"]]
    assert [name for name in names if name.endswith("_plain")] == found
    assert new.list_arguments() == symbol.list_arguments() and new.list_outputs() == symbol.list_outputs()
    assert new.list_auxiliary_states() == symbol.list_auxiliary_states()


def test_relus_behind_a_batchnorm_are_no_bar() -> None:
    """Between blocks of unlike sizes the two stay apart (docs/adr/0041)."""
    rewrites = [norm_relus.with_joined_relus, plain_arrays.with_plain_arrays]
    new = graph_rewrites.rewritten(block(24, 144, 24), {"x": (2, 24, 14, 14)}, rewrites)
    names = [node["name"] for node in json.loads(new.tojson())["nodes"]]
    assert [name for name in names if name.endswith("_plain")] == ["norm0_plain", "norm1_plain"]


@pytest.mark.parametrize(("channels", "found"), [(72, ["gate_plain"]), (96, [])])
def test_a_global_pooling_of_part_blocks_reads_a_plain_array(channels: int, found: list[str]) -> None:
    """As squeeze and excitation do."""
    x = mx.sym.Convolution(mx.sym.var("x"), kernel=(1, 1), num_filter=channels, no_bias=True)
    pooled = mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1), name="gate")
    new = rewritten(mx.sym.broadcast_mul(x, pooled, name="end"), 24)
    names = [node["name"] for node in json.loads(new.tojson())["nodes"]]
    assert [name for name in names if name.endswith("_plain")] == found


def grouped(width: int, groups: int) -> Any:
    """Return the graph of ResNeXt's block: a convolution, one in groups, one more."""
    x = mx.sym.var("x")
    for number, (kernel, parts) in enumerate([(1, 1), (3, groups)]):
        x = mx.sym.Convolution(x, kernel=(kernel,) * 2, num_filter=width, num_group=parts, no_bias=True)
        x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"norm{number}")
        x = mx.sym.Activation(x, act_type="relu")
    return mx.sym.Convolution(x, kernel=(1, 1), num_filter=256, no_bias=True, name="end")


@pytest.mark.parametrize(
    ("width", "groups", "found"),
    [(128, 32, ["norm0_plain", "norm1_plain"]), (256, 32, ["norm0_plain", "norm1_plain"]), (512, 32, [])],
)
def test_groups_of_few_channels_have_blocks_of_their_own(width: int, groups: int, found: list[str]) -> None:
    """As in ResNeXt: of 4, of 8 and of 16 channels."""
    new = rewritten(grouped(width, groups), 64)
    names = [node["name"] for node in json.loads(new.tojson())["nodes"]]
    assert [name for name in names if name.endswith("_plain")] == found


def test_operators_in_bfloat16_stay_as_they_are() -> None:
    graph = json.loads(block(24, 144, 24).tojson())
    norms = [place for place, node in enumerate(graph["nodes"]) if node["op"] == "BatchNorm"]
    for chosen, found in (([], ["norm0_plain", "norm1_plain"]), (norms[1:], ["norm0_plain"])):
        symbol = mx.sym.load_json(json.dumps(autocast.with_casts(graph, chosen)))
        names = [node["name"] for node in json.loads(rewritten(symbol, 24).tojson())["nodes"]]
        assert [name for name in names if name.endswith("_plain")] == found


def test_branches_that_meet_again_are_followed_once() -> None:
    """As in gates of gates: the paths of forty double in number at each."""
    x = mx.sym.BatchNorm(mx.sym.Convolution(mx.sym.var("x"), kernel=(1, 1), num_filter=24), name="norm")
    for _ in range(40):
        x = x * (x + 1)
    new = rewritten(mx.sym.Convolution(x, kernel=(1, 1), num_filter=32), 32)
    assert "norm_plain" not in new.get_internals().list_outputs()


def test_numbers_that_are_not_finite_pass() -> None:
    x = mx.sym.BatchNorm(mx.sym.Convolution(mx.sym.var("x"), kernel=(1, 1), num_filter=32), name="norm")
    new = rewritten(mx.sym.Convolution(x, kernel=(1, 1), num_filter=32, name="end"), 24)
    passing = new.get_internals()["norm_plain_output"]
    bound = passing.simple_bind(mx.cpu(), x=(2, 24, 3, 3))
    bound.arg_dict["x"][:] = np.inf
    for weight in ("convolution", "norm_gamma"):
        next(array for name, array in bound.arg_dict.items() if weight in name)[:] = 1
    (output,) = bound.forward(is_train=True)
    assert np.isnan(output.asnumpy()).all()


@pytest.mark.parametrize("symbol", [block(24, 48, 24), grouped(128, 32), grouped(256, 32)])
def test_gradients_are_the_same(symbol: Any) -> None:
    shapes, _, states = symbol.infer_shape(x=(2, 24, 14, 14))
    values = {name: mx.nd.random.normal(shape=shape) for name, shape in zip(symbol.list_arguments(), shapes)}

    def gradients(graph: Any) -> list[Any]:
        found = {name: mx.nd.zeros(value.shape) for name, value in values.items()}
        running = [mx.nd.ones(shape) for shape in states]
        bound = graph.bind(mx.cpu(), dict(values), args_grad=found, aux_states=running)
        (output,) = bound.forward(is_train=True)
        bound.backward(mx.nd.ones(output.shape))
        return [output.asnumpy(), *(each.asnumpy() for each in found.values())]

    for ours, right in zip(gradients(rewritten(symbol, 24)), gradients(symbol)):
        np.testing.assert_allclose(ours, right, rtol=1e-4, atol=1e-5 * np.abs(right).max())


TRAINED = """
from mxtrain.models import chosen_rewrites
from mxtrain.models.rewrites import graph_rewrites; from mxtrain.models.nets import zoo
from mxtrain.runtime import mx
net = zoo.build("{name}", 4)
net.initialize()
net.hybridize(static_alloc=True, static_shape=True)
with graph_rewrites.rewriting(chosen_rewrites.rewrites(None)), mx.autograd.record():
    loss = (net(mx.nd.random.normal(shape=(1, 3, 64, 64))) ** 2).sum()
loss.backward()
mx.nd.waitall()
"""


@pytest.mark.skipif(not HAS_BLOCKS_OF_16, reason="without AVX-512 all blocks have 8 channels")
@pytest.mark.parametrize(
    "name",
    [
        "mobilenetv2_1.0",
        # The tests of graphs above have a pooling and groups like theirs.
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("mobilenetv3_small", "resnext50_32x4d")),
    ],
)
def test_no_batchnorm_or_pooling_takes_a_reference_kernel(name: str) -> None:
    said = run(TRAINED.format(name=name), DNNL_VERBOSE="1").stdout.splitlines()
    used = {tuple(line.split(",")[3:5]) for line in said if line.startswith("dnnl_verbose,exec")}
    assert ("batch_normalization", "bnorm_jit:avx512_common") in used
    slow = {(operator, kernel) for operator, kernel in used if "ref" in kernel}
    assert not {operator for operator, _ in slow} & {"batch_normalization", "pooling_v2"}
