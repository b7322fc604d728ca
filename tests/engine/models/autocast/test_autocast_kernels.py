"""oneDNN's bfloat16 kernels over shapes, forward and backward, against exact sums."""

from __future__ import annotations

import math
from typing import Any, Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mxtrain.core.system import kernels
from mxtrain.models.autocast import wrong_kernels
from mxtrain.models.rewrites.repairs import volumes
from tests.support.amp import needs_bf16
from tests.support.nets.exact_products import Layer, differing, exact, in_bfloat16, memory_that_shows, numbers

pytestmark = needs_bf16

USED = kernels.onednn()
MOST_PRODUCTS, MOST_NUMBERS = 4 * 10**6, 10**5  # of a layer, unless one sample has more


@pytest.fixture(autouse=True, scope="module")
def _memory() -> Iterator[None]:
    with memory_that_shows():
        yield


def problems(layer: Layer, seed: int) -> list[str]:
    inputs, gradient = numbers(layer, seed)
    return differing(in_bfloat16(layer, inputs, gradient), exact(layer, inputs, gradient))


CHANNELS = st.one_of(st.sampled_from([16, 32, 48, 64, 96]), st.integers(1, 40))


@st.composite
def convolutions(draw: st.DrawFn) -> Layer:
    axes = draw(st.sampled_from([2, 2, 2, 1, 3]))

    def each(one: st.SearchStrategy[int]) -> tuple[int, ...]:
        return (draw(one),) * axes if draw(st.booleans()) else tuple(draw(one) for _ in range(axes))

    kernel, stride = each(st.integers(1, 7 if axes < 3 else 3)), each(st.integers(1, 3))
    dilate = each(st.integers(1, 3)) if draw(st.booleans()) else (1,) * axes
    reach = [wide * (taps - 1) + 1 for wide, taps in zip(dilate, kernel)]
    pad = tuple(draw(st.integers(0, far - 1)) for far in reach)
    least = [max(1, far - 2 * around) for far, around in zip(reach, pad)]
    size = tuple(low + draw(st.integers(0, 12 if axes < 3 else 4)) for low in least)
    kind = draw(st.sampled_from(["whole", "whole", "depthwise", "groups"]))
    channels, filters = draw(CHANNELS), draw(CHANNELS)
    groups = {"whole": 1, "depthwise": channels, "groups": draw(st.integers(2, 6))}[kind]
    if kind == "groups":
        channels, filters = groups * (channels // 2 + 1), groups * (filters // 2 + 1)
    if kind == "depthwise":
        filters = channels * draw(st.sampled_from([1, 1, 2]))
    rest = {"has_bias": draw(st.booleans()), "is_between": draw(st.booleans())}
    one = Layer(1, channels, filters, size, kernel, stride, dilate, pad, groups, **rest)
    most = max(1, min(MOST_PRODUCTS // one.products, MOST_NUMBERS // math.prod(one.data)))
    return one._replace(batch=min(draw(st.integers(1, 33)), most))


@st.composite
def dense_layers(draw: st.DrawFn) -> Layer:
    rows, channels, filters = (draw(st.integers(1, most)) for most in (300, 500, 300))
    return Layer(rows, channels, filters, has_bias=draw(st.booleans()))


def is_wrong(layer: Layer, onednn: str = USED) -> bool:
    """Return whether no net computes this in bfloat16; one would overwrite memory of this process."""
    found = wrong_kernels.is_wrong(layer.attributes, layer.data, layer.output, onednn)
    return found or volumes.is_wrong(layer.attributes)


def is_right_by_name(layer: Layer) -> bool:
    """Return whether no convolution of its graph is among those known as wrong."""
    ones = (1,) * len(layer.kernel)
    around = [
        Layer(layer.batch, channels, channels, size, ones, ones, ones, (0,) * len(ones))
        for channels, size in ((layer.channels, layer.size), (layer.filters, layer.output_size))
    ]
    return not any(map(is_wrong, [layer, *around * layer.is_between]))


@given(layer=convolutions(), seed=st.integers(0, 99))
def test_convolutions_are_right_to_the_bit(layer: Layer, seed: int) -> None:
    assume(is_right_by_name(layer))
    assert problems(layer, seed) == []


@given(layer=dense_layers(), seed=st.integers(0, 99))
def test_dense_layers_are_right_to_the_bit(layer: Layer, seed: int) -> None:
    assert problems(layer, seed) == []


def plane(size: Any, kernel: int, stride: int, pad: int, channels: int = 16) -> Layer:
    ones = (1,) * len(size)
    steps, around, taps = ((number,) * len(size) for number in (stride, pad, kernel))
    return Layer(2, channels, channels, tuple(size), taps, steps, ones, around)


FOUND = {  # wrong: the names of results, and whether only without instructions for bfloat16
    "a picture narrower than the stride": (plane((4, 1), 3, 2, 1), ["weight"], False),
    "the last picture of a ResNet of 32 pixels": (plane((1, 1), 3, 2, 1), ["weight"], False),
    "five pixels": (plane((5,), 1, 1, 0, channels=96), ["output", "data"], True),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_wrong_is_noticed_and_named(name: str) -> None:
    layer, results, is_emulated = FOUND[name]
    assert is_wrong(layer, "AVX512_CORE")
    assert is_wrong(layer, "AVX512_CORE_BF16") is not is_emulated
    if USED == kernels.AMX:
        pytest.skip(
            "AMX has kernels of its own, which may be right here; this shape stays float32 all the same"
        )
    assert problems(layer, seed=0) == (results if is_wrong(layer) else [])


@pytest.mark.parametrize("onednn", ["AVX512_CORE", "AVX512_CORE_BF16", kernels.AMX])
def test_volumes_whose_gradients_overrun_memory_are_named(onednn: str) -> None:
    """Computed, they end the process, sooner or later: rows that meet nothing but padding."""
    ones, steps = (1, 1, 1), (1, 2, 1)
    layer = Layer(5, 96, 96, (5, 1, 5), (1, 3, 1), steps, ones, (0, 1, 0))
    assert is_wrong(layer, onednn) and not is_wrong(layer._replace(size=(5, 2, 5)), onednn)


@pytest.mark.parametrize(
    "size, kernel, stride, is_named",
    [
        ((6, 6), 1, 1, True),  # the last pictures of a ResNet of 192 pixels
        ((4, 12), 1, 1, True),
        ((39,), 1, 1, True),
        ((1, 3, 9), 1, 1, True),
        ((12, 12), 1, 2, True),
        ((7, 7), 1, 1, False),
        ((8, 8), 1, 1, False),
        ((6, 6), 3, 1, False),
        ((14, 14), 1, 2, False),
        ((18, 18), 2, 3, True),
        ((18, 18), 3, 2, False),
    ],
)
def test_what_overruns_memory_with_amx_is_named(
    size: tuple[int, ...], kernel: int, stride: int, is_named: bool
) -> None:
    layer = plane(size, kernel, stride, kernel // 2, channels=64)
    assert is_wrong(layer, kernels.AMX) is is_named
    assert not is_wrong(layer, "AVX512_CORE_BF16")
    assert wrong_kernels.overruns_memory(layer.attributes, layer.output) is is_named


def test_a_single_wrong_weight_is_noticed() -> None:
    layer = plane((8, 8), 3, 1, 1)
    inputs, gradient = numbers(layer, seed=0)
    expected = exact(layer, inputs, gradient)
    assert differing(in_bfloat16(layer, inputs, gradient), expected) == []
    inputs[1][0, 0, 0, 0] += 1
    assert differing(in_bfloat16(layer, inputs, gradient), expected) == ["output", "data"]
    gradient[0, 0, 0, 0] += 1
    assert differing(in_bfloat16(layer, inputs, gradient), expected) == ["output", "data", "weight"]


def test_the_kernels_here_are_those_of_amx() -> None:
    """Skips, in words, where it cannot say so."""
    if USED != kernels.AMX:
        pytest.skip(f"{kernels.amx_problem() or 'this CPU has no AMX'}: tested with the kernels {USED}")
    assert kernels.tiles_are_granted()
