"""Nets in int8 answer nearly as in float32, however their sums are joined to convolutions: searched over blocks."""

from __future__ import annotations

import random
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain.core.system import kernels
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8 import int8_graph, joined_convolutions
from mxtrain.runtime import mx
from tests.support.nets import random_nets
from tests.support.processes import fresh_python

CHANNELS, SIZES = (4, 8, 10, 16, 24, 32, 48, 64), (4, 7, 8, 14, 16)
# Of the answers' deviation. Rounding costs 0.02 to 0.08; a sum that is cut off at half of its range 0.1 to 0.3.
MOST_OFF = 0.1
NUM_NETS = 60


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param(["sum_of_both", "gated_residual"], marks=pytest.mark.slow),
        pytest.param(["linear_residual", "fork_of_a_sum"], marks=pytest.mark.slow),
        pytest.param(["doubled", "pooled_sum"], marks=pytest.mark.slow),
        pytest.param(["fork_of_a_convolution", "fork_of_a_norm"], marks=pytest.mark.slow),
        ["sum_of_three", "depthwise_residual"],
    ],
    ids="-".join,
)
def test_no_sum_is_cut_off(blocks: list[str]) -> None:
    assert error_of(blocks, channels=8, size=8, seed=3) < MOST_OFF


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE", "ALL"])
def test_many_nets_lose_little_by_other_kernels(isa: str) -> None:
    """Without whole-number instructions oneDNN cuts off sums of two large products, in one net of sixty or so."""
    code = "from tests.engine.export import test_int8_sums\nanswer = test_int8_sums.errors_of_many()"
    answer = fresh_python.answer(code, timeout=280, DNNL_MAX_CPU_ISA=isa)
    far_off = [net for error, net in answer["errors"] if error >= MOST_OFF]
    assert len(far_off) <= (0 if answer["has_int8"] else NUM_NETS // 20), far_off


def errors_of_many() -> dict[str, Any]:
    """Return the errors of many random nets, each with the net, and whether there are instructions for int8."""
    has_int8 = not kernels.int8_problem()
    return {"errors": list(_errors(random.Random(0))), "has_int8": has_int8}


def _errors(rng: random.Random) -> Iterator[tuple[float, str]]:
    for seed in range(NUM_NETS):
        blocks = rng.choices(list(random_nets.BLOCKS), k=rng.randint(1, 3))
        channels, size = rng.choice(CHANNELS), rng.choice(SIZES)
        yield (
            error_of(blocks, channels, size, seed),
            f"{blocks}, {channels} channels, size {size}, seed {seed}",
        )


def error_of(blocks: list[str], channels: int, size: int, seed: int) -> float:
    """Return the largest error of a net in int8, as a share of its answers' deviation.

    Each batch is computed twice, with and without static memory. Joined, and still in float32, the net answers as it
    is.
    """
    graph = random_nets.build(blocks, channels, size, seed)
    rng = np.random.default_rng(seed)
    batches = [{"data": rng.normal(size=(8, 3, size, size)).astype(np.float32)} for _ in range(2)]
    right = [_answers(graph, batch["data"], is_static=False)[0] for batch in batches]
    joined = graph._replace(symbol=joined_convolutions.joined(graph, batches))
    for batch, expected in zip(batches, right):
        np.testing.assert_allclose(_answers(joined, batch["data"], is_static=False)[1], expected, 1e-3, 1e-3)
    made = int8_graph.quantised(graph, right, batches)
    return max(
        float(np.sqrt(np.square(answer - expected).mean() / expected.var()))
        for is_static in (False, True)
        for batch, expected in zip(batches, right)
        for answer in _answers(made.graph, batch["data"], is_static)
    )


def _answers(graph: InferenceGraph, data: Any, is_static: bool) -> list[Any]:
    flags = [("static_alloc", is_static), ("static_shape", is_static)]
    compute = mx.nd.CachedOp(graph.symbol, flags)
    arrays = {**graph.arguments, **graph.auxiliaries, "data": mx.nd.array(data)}
    inputs = [arrays[name] for name in graph.symbol.list_inputs()]
    return [compute(*inputs).asnumpy() for _ in range(2)]
