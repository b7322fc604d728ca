"""A net's parameters as named arrays, and back.

Owns the names under which a checkpoint keeps weights: a parameter's place in the net, which does not depend on Gluon's
counters of names. An optimizer's state is `optim/optimizer_state.py`'s.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, TypeVar

import numpy as np
import numpy.typing as npt

from mxtrain.core.errors import DataError
from mxtrain.core.params_file import Arrays
from mxtrain.data.fields import Array
from mxtrain.models.parameters import head_arrays
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray, Parameter

Layer = TypeVar("Layer")


def named_parameters(net: Block) -> dict[str, Parameter]:
    """Return the net's parameters by their place in it (`features.0.weight`), shared ones once."""
    named: dict[str, Any] = {}
    for name, parameter in net._collect_params_with_prefix().items():
        if all(parameter is not other for other in named.values()):
            named[name] = parameter
    return named


def layers(net: Block, layer_type: type[Layer]) -> Iterator[Layer]:
    """Yield every layer of a class in the net, a shared one each time."""
    if isinstance(net, layer_type):
        yield net
    for child in net._children.values():
        yield from layers(child, layer_type)


def copy_of(net: Block) -> Arrays:
    """Return a copy of every parameter on the first device; a mean over devices would change the last bits."""
    return {name: parameter.list_data()[0].asnumpy() for name, parameter in named_parameters(net).items()}


@contextlib.contextmanager
def kept(net: Block) -> Iterator[None]:
    """A block after which parameters that have values have them again, on the devices where they were."""
    before = [
        (parameter, parameter.list_ctx(), parameter.list_data()[0].copy())
        for parameter in net.collect_params().values()
        if parameter._data is not None
    ]
    try:
        yield
    finally:
        for parameter, contexts, values in before:
            parameter._init_impl(values, contexts)


@contextlib.contextmanager
def training_settings_kept(net: Block) -> Iterator[None]:
    """A block after which a net trains as it did before: which parameters do, at which rates, and which norms move."""
    parameters = [
        (parameter, {name: getattr(parameter, name) for name in ("grad_req", "lr_mult", "wd_mult")})
        for parameter in net.collect_params().values()
    ]
    norms = [(layer._kwargs, dict(layer._kwargs)) for layer in layers(net, mx.gluon.nn.BatchNorm)]
    try:
        yield
    finally:
        for parameter, settings in parameters:
            for name, value in settings.items():
                setattr(parameter, name, value)
        if any(settings != before for settings, before in norms):
            net.apply(_forget_graph)  # which has the norms as they were
        for settings, before in norms:
            settings.update(before)


def _forget_graph(block: Block) -> None:
    if isinstance(block, mx.gluon.HybridBlock):
        block._clear_cached_op()


def put(parameter: Parameter, values: NDArray) -> None:
    """Give a parameter that has values others, on all devices.

    oneDNN may have laid out the weights of a convolution its way, in the memory where they are. Gluon's set_data fails
    to copy into those of one or three dimensions; an operator that writes there makes them plain first.
    """
    for array in parameter.list_data():
        mx.nd.cast(values.as_in_context(array.context), dtype=array.dtype, out=array)


def load(net: Block, *paths: str) -> None:
    """Load the weights of a file, or the mean of several, on all devices; DataError if a name or shape differs.

    Running statistics are averaged as all else is.
    """
    named, files = named_parameters(net), [_read(path, net) for path in paths]
    for name, parameter in named.items():
        arrays = [file[name] for file in files]
        put(parameter, arrays[0] if len(arrays) == 1 else _mean(arrays))


def _read(path: str, net: Block) -> dict[str, NDArray]:
    """Return the arrays of a file that fits the net."""
    named = named_parameters(net)
    arrays = head_arrays.fitted(mx.nd.load(path), {name: each.shape for name, each in named.items()})
    for name in sorted({*arrays, *named}):
        if name not in named or name not in arrays:
            where = "the net" if name not in named else "the file"
            raise DataError(f"{path}: does not fit this net: {where} has no parameter '{name}'")
        if arrays[name].shape != named[name].shape:
            shapes = f"{arrays[name].shape} in the file, {named[name].shape} in the net"
            raise DataError(f"{path}: does not fit this net: parameter '{name}' is {shapes}")
    return arrays


def _mean(arrays: list[NDArray]) -> NDArray:
    total = sum(array.asnumpy().astype(np.float64) for array in arrays)
    return mean_of(np.asarray(total), len(arrays), arrays[0].dtype)


def mean_of(total: Array, count: int, dtype: npt.DTypeLike) -> NDArray:
    """Return the mean of `count` arrays of this type whose sum in float64 is `total`; of equal ones it is these."""
    return mx.nd.array(total / count, dtype=dtype)
