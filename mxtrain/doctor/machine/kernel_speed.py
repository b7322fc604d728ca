"""Speed of MXNet's kernels here, in GFLOP/s: of those that mxtrain chooses, and those that MXNet would take by itself.

Owns the measurement, in child processes and in seconds; what follows from it is `machine_advice.py`'s. A large product
or convolution reaches the most that a library does here: nets have smaller ones, and other operators between them.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from mxtrain.core.system import kernels
from mxtrain.doctor.machine import mxnet_check

SECONDS, MIN_RUNS = 0.2, 3  # of each of five
ROWS = 1024
BATCH, CHANNELS, PIXELS, KERNEL = 8, 128, 28, 3
DOT = "dot float32"


def examine() -> dict[str, Any]:
    """Return the GFLOP/s `here` and, where mxtrain chooses, `by_itself`, else None; either may hold an `error`."""
    without = without_choice()
    call = (f"{__name__}.measure()", "measure kernels")
    return {
        "here": mxnet_check.in_a_child(*call),
        "by_itself": mxnet_check.in_a_child(*call, without) if without else None,
    }


def without_choice() -> dict[str, str]:
    """Return the variables with which MXNet's libraries take what they would by themselves; none where they do."""
    openblas = kernels.openblas()
    variables = {kernels.CORETYPE: openblas.own} if openblas.used != openblas.own else {}
    return {**variables, **({kernels.AMX_SWITCH: "0"} if kernels.onednn() == kernels.AMX else {})}


def measure() -> dict[str, Any]:
    """Return the GFLOP/s of each operator and type in this process; bfloat16 only where it has kernels."""
    from mxtrain.runtime import mx

    matrix = mx.nd.random.uniform(-1, 1, shape=(ROWS, ROWS))
    picture = mx.nd.random.uniform(-1, 1, shape=(BATCH, CHANNELS, PIXELS, PIXELS))
    weight = mx.nd.random.uniform(-1, 1, shape=(CHANNELS, CHANNELS, KERNEL, KERNEL))
    of_product, of_convolution = 2e-9 * ROWS**3, 2e-9 * picture.size * weight[0].size
    dense = {"num_hidden": ROWS, "no_bias": True}
    convolution = {
        "kernel": (KERNEL,) * 2,
        "pad": (KERNEL // 2,) * 2,
        "num_filter": CHANNELS,
        "no_bias": True,
    }
    gflops = {DOT: of_product / _seconds(mx.nd.dot, matrix, matrix)}
    for of_type in ("float32", *([] if kernels.bf16_problem() else ["bfloat16"])):
        run = _operator(of_type, "FullyConnected", dense)
        gflops[f"dense {of_type}"] = of_product / _seconds(run, matrix, matrix)
        run = _operator(of_type, "Convolution", convolution)
        gflops[f"convolution {of_type}"] = of_convolution / _seconds(run, picture, weight)
    return {"error": None, "gflops": {name: round(value, 1) for name, value in gflops.items()}}


def _operator(of_type: str, name: str, settings: dict[str, Any]) -> Callable[..., Any]:
    """Return an operator, compiled, that computes in this type, in what is float32 before and after."""
    import numpy as np

    from mxtrain.runtime import mx

    data, weight = mx.sym.var("data"), mx.sym.var("weight")
    if of_type == "bfloat16":
        narrow = np.dtype([("bfloat16", np.uint16)])  # as MXNet calls it
        data, weight = (mx.sym.amp_cast(each, dtype=narrow) for each in (data, weight))
    output = mx.sym.amp_cast(getattr(mx.sym, name)(data, weight, **settings), dtype="float32")
    run: Callable[..., Any] = mx.nd.CachedOp(output, [("static_alloc", True), ("static_shape", True)])
    return run


def _seconds(run: Callable[..., Any], *arrays: Any) -> float:
    """Return the least seconds of a few runs, after one to warm up: others may have the CPU in between."""
    run(*arrays).wait_to_read()
    times: list[float] = []
    while sum(times) < SECONDS or len(times) < MIN_RUNS:
        started = time.perf_counter()
        run(*arrays).wait_to_read()
        times.append(time.perf_counter() - started)
    return min(times)
