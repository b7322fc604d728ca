"""Measuring what pays in bfloat16 on this machine: `python -m mxtrain.doctor --measure-bf16 FILE`.

Owns the specimens of each class of operators and shapes, and their timing. An operator is timed as a link of a chain,
by what a longer chain takes more than a shorter one, so that the arrays are laid out as in a net, and what is at the
ends of a chain does not count. The file's form is `config/autocast_costs.py`'s.
"""

from __future__ import annotations

import datetime
import json
import math
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, NamedTuple, Sequence

from mxtrain.core.system import kernels, machine
from mxtrain.models.autocast import autocast
from mxtrain.models.autocast.operator_times import ANY_OTHER, PASSES, element_class, product_class
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Symbol

SECONDS = 2.0  # for each specimen
LENGTHS = (1, 4)
BATCH, LARGE_BATCH = 8, 32
FLOAT32, BFLOAT16 = autocast.FLOAT32, autocast.BFLOAT16
Seconds = Dict[str, float]  # of a link, by type


class Specimen(NamedTuple):
    """A link of a chain, and what goes before the chain and after it."""

    link: Callable[[Any], Any]
    shape: tuple[int, ...]
    ends: Callable[[Any], Any] = lambda x: x


def convolution(channels: int, size: Sequence[int], kernel: int = 3, groups: int = 1) -> Specimen:
    dimensions = len(size)

    def link(x: Any) -> Any:
        return mx.sym.Convolution(
            x,
            kernel=(kernel,) * dimensions,
            pad=(kernel // 2,) * dimensions,
            num_filter=channels,
            num_group=groups,
            no_bias=True,
        )

    return Specimen(link, (BATCH, channels, *size))


def dense(rows: int, columns: int) -> Specimen:
    return Specimen(lambda x: mx.sym.FullyConnected(x, num_hidden=columns, flatten=False), (rows, columns))


def between_convolutions(link: Callable[[Any], Any], batch: int = 0, size: int = 56) -> Specimen:
    """Between two, which lay the arrays out in blocks; larger than caches, as most of a net's."""
    end = convolution(64, (size, size), kernel=1)
    return Specimen(link, (batch or LARGE_BATCH, *end.shape[1:]), end.link)


PRODUCTS: Sequence[Specimen] = (
    convolution(256, (14, 14)),
    convolution(32, (56, 56)),
    convolution(24, (28, 28)),
    convolution(512, (14, 14), kernel=1),
    convolution(32, (56, 56), kernel=1),
    convolution(24, (56, 56), kernel=1),
    convolution(96, (56, 56), groups=96),
    convolution(72, (28, 28), groups=72),
    convolution(512, (14, 14), groups=32),
    convolution(256, (28, 28), groups=32),
    convolution(128, (512,)),
    convolution(32, (1024,)),
    convolution(256, (512,), kernel=1),
    convolution(64, (8, 14, 14)),
    convolution(32, (8, 28, 28)),
    convolution(128, (8, 14, 14), kernel=1),
    dense(16, 2048),
    dense(1024, 512),
)
ELEMENTS: Sequence[Specimen] = (
    between_convolutions(lambda x: mx.sym.Activation(x, act_type="relu")),
    between_convolutions(lambda x: mx.sym.BatchNorm(x, fix_gamma=False)),
    between_convolutions(lambda x: mx.sym.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="max")),
    between_convolutions(lambda x: mx.sym.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="avg")),
    between_convolutions(lambda x: x + x),
    between_convolutions(lambda x: mx.sym.Concat(x, num_args=1)),
)


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """Return the table of this machine, as a file of `--amp-table` holds it; `say` gets a line for each class."""
    elements = {}
    for specimen in ELEMENTS:
        name, seconds = _name(specimen), _per_element(specimen)
        elements[name] = seconds
        _say(say, name, "ns an element", seconds)
    cast = _of_cast()
    say(f"{'a cast and its gradient':45} {cast:8.3f} ns an element")
    products = {}
    for specimen in PRODUCTS:
        name, seconds = _name(specimen), _gflops(specimen)
        products[name] = seconds
        _say(say, name, "GFLOP/s", seconds)
    wide = _per_element(between_convolutions(lambda x: x * 0.5), types=(FLOAT32,))
    now = {
        "source": f"measured on {machine.cpu()['name']}, {machine.usable_cores()} cores, {datetime.date.today()}",
        "cast": round(cast, 4),
        "call": round(_of_call() * 1e9),
        "products": products,
        "elements": {**elements, ANY_OTHER: {FLOAT32: wide[FLOAT32], BFLOAT16: wide[FLOAT32]}},
    }
    return {"kernels": {kernels.onednn(): now}}


def _say(say: Callable[[str], None], name: str, unit: str, seconds: Seconds) -> None:
    say(f"{name:45} {seconds[FLOAT32]:8.2f} {unit} in float32 {seconds[BFLOAT16]:8.2f} in bfloat16")


def _name(specimen: Specimen) -> str:
    """Return the class that a net's operator like the specimen's link is of."""
    symbol = specimen.link(mx.sym.var("x"))
    node = json.loads(symbol.tojson())["nodes"][-1]
    inputs, (output,), _ = symbol.infer_shape(x=specimen.shape)
    return element_class(node) or product_class(node, inputs[0], inputs[1], output)


def _gflops(specimen: Specimen) -> Seconds:
    inputs, (output,), _ = specimen.link(mx.sym.var("x")).infer_shape(x=specimen.shape)
    flops = PASSES * 2 * math.prod(output) * math.prod(inputs[1][1:])
    seconds = seconds_of_link(specimen)
    return {each: round(flops / max(taken, 1e-9) / 1e9, 2) for each, taken in seconds.items()}


def _per_element(specimen: Specimen, types: Sequence[str] = (FLOAT32, BFLOAT16)) -> Seconds:
    elements = math.prod(specimen.shape)
    found = seconds_of_link(specimen, types)
    return {each: round(max(taken / elements * 1e9, 1e-3), 4) for each, taken in found.items()}


def _of_cast() -> float:
    """Return the nanoseconds of a cast of an element, from convolutions of which every other one is narrow.

    What it takes to put the plain array that a cast gives into blocks again is in them too.
    """
    one = convolution(64, (56, 56), kernel=1)
    specimen = between_convolutions(one.link)
    pairs = between_convolutions(lambda x: one.link(one.link(x)))
    each = _per_element(specimen)
    pair = _per_element(pairs, types=("alternating",))["alternating"]
    return max(0.01, (pair - each[FLOAT32] - each[BFLOAT16]) / 2)


def _of_call() -> float:
    specimen = between_convolutions(lambda x: mx.sym.Activation(x, act_type="relu"), 1, 1)
    return max(1e-6, seconds_of_link(specimen, types=(FLOAT32,))[FLOAT32])


def seconds_of_link(specimen: Specimen, types: Sequence[str] = (FLOAT32, BFLOAT16)) -> Seconds:
    """Return what a link takes forward and backward, in chains that run narrow or not; the fastest of many turns."""
    runs = {(each, length): _run(specimen, each, length) for each in types for length in LENGTHS}
    fastest = dict.fromkeys(runs, math.inf)
    for run in runs.values():  # the first run lays the arrays out
        run()
    deadline, turns = time.monotonic() + SECONDS, 0
    while turns < 5 or time.monotonic() < deadline:
        turns += 1
        for key, run in runs.items():
            started = time.perf_counter()
            run()
            fastest[key] = min(fastest[key], time.perf_counter() - started)
    short, long = LENGTHS
    return {each: (fastest[each, long] - fastest[each, short]) / (long - short) for each in types}


def _run(specimen: Specimen, of_type: str, length: int) -> Callable[[], None]:
    """Return a function that goes once forward and backward through a chain."""
    x = specimen.ends(mx.sym.var("x"))
    for _ in range(length):
        x = specimen.link(x)
    symbol = _narrowed(specimen.ends(x), of_type)
    shapes, (output,), states = symbol.infer_shape(x=specimen.shape)
    arrays = {
        name: mx.nd.random.normal(scale=0.05, shape=shape)
        for name, shape in zip(symbol.list_arguments(), shapes)
    }
    for array in arrays.values():
        array.attach_grad()
    arrays.update({name: mx.nd.ones(shape) for name, shape in zip(symbol.list_auxiliary_states(), states)})
    names = symbol.list_inputs()
    data = [number for number, name in enumerate(names) if name == "x"]
    settings = [("static_alloc", True), ("static_shape", True), ("data_indices", data)]
    settings.append(("param_indices", [number for number in range(len(names)) if number not in data]))
    compiled, gradient = mx.nd.CachedOp(symbol, settings), mx.nd.ones(output)

    def run() -> None:
        with mx.autograd.record():
            computed = compiled(*[arrays[name] for name in names])
        computed.backward(gradient)
        mx.nd.waitall()

    return run


def _narrowed(symbol: Symbol, of_type: str) -> Any:
    graph = json.loads(symbol.tojson())
    operators = [place for place, node in enumerate(graph["nodes"]) if node["op"] != "null"]
    if of_type == FLOAT32:
        return symbol
    if of_type == BFLOAT16:
        return mx.sym.load_json(json.dumps(autocast.with_casts(graph, set(operators))))
    return mx.sym.load_json(json.dumps(autocast.with_casts(graph, set(operators[1:-1:2]))))
