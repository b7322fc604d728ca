"""Convolutions and dense layers of whole numbers: what they are exactly, and what MXNet computes in bfloat16.

Whole numbers that are small enough have exact products and sums, in whatever order they are added. So a right kernel
gives the exact result rounded once, to the bit, and has no other excuse.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from mxtrain.runtime import mx

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])  # as MXNet calls it
EXACT = 2**24  # whole numbers up to here are float32's
LARGEST = 127  # has bfloat16's eight bits
PERTURB, HUGE, NOTHING = (
    -6,
    0x80,
    0,
)  # of glibc's mallopt: new memory has 0x7f in each byte, 3.4e38 in each number
NAMES = ("output", "data", "weight", "bias")
Arrays = Sequence[np.ndarray]


class Layer(NamedTuple):
    """A convolution of pictures with any number of axes, or with none a dense layer, of `batch` samples."""

    batch: int
    channels: int
    filters: int
    size: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dilate: tuple[int, ...] = ()
    pad: tuple[int, ...] = ()
    groups: int = 1
    has_bias: bool = False
    is_between: bool = False  # two convolutions that change no number, which lay arrays out in blocks

    @property
    def output_size(self) -> tuple[int, ...]:
        reach = (dilate * (kernel - 1) + 1 for dilate, kernel in zip(self.dilate, self.kernel))
        return tuple(
            (size + 2 * pad - each) // stride + 1
            for size, pad, each, stride in zip(self.size, self.pad, reach, self.stride)
        )

    @property
    def data(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *self.size)

    @property
    def weight(self) -> tuple[int, ...]:
        return (self.filters, self.channels // self.groups, *self.kernel)

    @property
    def output(self) -> tuple[int, ...]:
        return (self.batch, self.filters, *self.output_size)

    @property
    def attributes(self) -> dict[str, Any]:
        words = {"kernel": self.kernel, "stride": self.stride, "dilate": self.dilate, "pad": self.pad}
        return {**words, "num_filter": self.filters, "num_group": self.groups, "no_bias": not self.has_bias}

    @property
    def most_terms(self) -> int:
        """Numbers that add up to one of the results, at most."""
        taps = math.prod(self.kernel)
        ways = (taps * self.weight[1], taps * self.filters // self.groups)
        return 1 + max(*ways, self.batch * math.prod(self.output_size))

    @property
    def products(self) -> int:
        return math.prod(self.output) * math.prod(self.weight[1:])


def numbers(layer: Layer, seed: int) -> tuple[Arrays, np.ndarray]:
    """Return data, weight and perhaps bias, and the gradient of the output."""
    largest = min(LARGEST, math.isqrt(EXACT // layer.most_terms))
    rng = np.random.default_rng(seed)
    shapes = [layer.data, layer.weight, *[(layer.filters,)] * layer.has_bias, layer.output]
    *inputs, gradient = (rng.integers(-largest, largest + 1, shape).astype(np.float32) for shape in shapes)
    return inputs, gradient


def exact(layer: Layer, inputs: Arrays, gradient: np.ndarray) -> dict[str, np.ndarray]:
    """Return the output and the gradients of the inputs, in float64, one weight of the kernel after another."""
    data, weight = (each.astype(np.float64) for each in inputs[:2])
    groups, batch = layer.groups, layer.batch
    padded = np.pad(data, [(0, 0), (0, 0), *((pad, pad) for pad in layer.pad)])
    data = padded.reshape(batch, groups, -1, *padded.shape[2:])
    weight = weight.reshape(groups, layer.filters // groups, -1, *layer.kernel)
    given = gradient.astype(np.float64).reshape(batch, groups, layer.filters // groups, -1)
    output, of_data, of_weight = np.zeros_like(given), np.zeros_like(data), np.zeros_like(weight)
    for tap in itertools.product(*map(range, layer.kernel)):
        places = zip(tap, layer.dilate, layer.stride, layer.output_size)
        seen = (..., *(slice(at * wide, at * wide + step * out, step) for at, wide, step, out in places))
        pixels = data[seen].reshape(batch, groups, data.shape[2], -1)
        of_tap = weight[(..., *tap)]
        output += np.einsum("bgcp,gfc->bgfp", pixels, of_tap, optimize=True)
        of_weight[(..., *tap)] = np.einsum("bgfp,bgcp->gfc", given, pixels, optimize=True)
        of_data[seen] += np.einsum("bgfp,gfc->bgcp", given, of_tap, optimize=True).reshape(data[seen].shape)
    inside = tuple(slice(pad, pad + size) for pad, size in zip(layer.pad, layer.size))
    results = [output, of_data.reshape(padded.shape)[(..., *inside)], of_weight]
    if layer.has_bias:
        results[0] = output + inputs[2].reshape(groups, -1, 1)
        results.append(given.sum(axis=(0, 3)))
    shapes = (layer.output, layer.data, layer.weight, (layer.filters,))
    return {name: each.reshape(shape) for name, each, shape in zip(NAMES, results, shapes)}


def in_bfloat16(layer: Layer, inputs: Arrays, gradient: np.ndarray) -> dict[str, np.ndarray]:
    """Return the same as MXNet computes them in a compiled graph, as nets do."""
    names = NAMES[1 : 1 + len(inputs)]
    given: dict[str, Any] = {name: mx.nd.array(value) for name, value in zip(names, inputs)}
    for array in given.values():
        array.attach_grad()
    data, *weights = (_narrow(name) for name in names)
    if layer.is_between:
        data = _unchanged(layer, data, layer.channels, "before", given)
    output = (
        mx.sym.Convolution(data, *weights, **layer.attributes)
        if layer.kernel
        else _dense(layer, data, weights)
    )
    if layer.is_between:
        output = _unchanged(layer, output, layer.filters, "after", given)
    output = mx.sym.amp_cast(output, dtype="float32")
    run = mx.nd.CachedOp(output, [("static_alloc", True), ("static_shape", True)])
    with mx.autograd.record():
        result = run(*(given[name] for name in output.list_arguments()))
    result.backward(mx.nd.array(gradient))
    return {"output": result.asnumpy(), **{name: given[name].grad.asnumpy() for name in names}}


@contextlib.contextmanager
def memory_that_shows() -> Iterator[None]:
    """What a kernel forgets to write is seen, instead of being zero by chance."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda *of: 0)
    mallopt(PERTURB, HUGE)
    yield
    mallopt(PERTURB, NOTHING)


def differing(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names of results that are not those expected, rounded to bfloat16."""
    return [name for name, value in expected.items() if not np.array_equal(found[name], rounded(value))]


def rounded(array: np.ndarray) -> np.ndarray:
    """Return the nearest bfloat16 numbers, the even one of two, as float32."""
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def _narrow(name: str) -> Any:
    return mx.sym.amp_cast(mx.sym.var(name), dtype=BFLOAT16)


def _dense(layer: Layer, data: Any, weights: Sequence[Any]) -> Any:
    return mx.sym.FullyConnected(data, *weights, num_hidden=layer.filters, no_bias=not layer.has_bias)


def _unchanged(layer: Layer, data: Any, channels: int, name: str, given: dict[str, Any]) -> Any:
    ones = (1,) * len(layer.kernel)
    given[name] = mx.nd.array(np.eye(channels).reshape(channels, channels, *ones))
    return mx.sym.Convolution(data, _narrow(name), kernel=ones, num_filter=channels, no_bias=True)
