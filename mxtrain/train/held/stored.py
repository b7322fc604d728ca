"""Checkpoints of a net that is with the owners of its parameters: read and written one parameter at a time.

The files are those of a net that is here as a whole, to the byte.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Mapping, Sequence

import numpy as np

from mxtrain.core import params_file
from mxtrain.core.errors import DataError
from mxtrain.core.params_file import ArraysOneByOne, NamedArrays, Place
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import Owners
from mxtrain.models.parameters import weights
from mxtrain.optim import optimizer_state
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Optimizer, Parameter

if TYPE_CHECKING:
    from mxtrain.train.held.trainer import HeldTrainer


def weights_of(trainer: HeldTrainer, net: Block) -> NamedArrays:
    """Return the weights by the names that a checkpoint has for them, each asked for when it is looked at."""
    places = {each.name: index for index, each in enumerate(trainer.parameters)}
    named = weights.named_parameters(net)
    return ArraysOneByOne(
        {name: functools.partial(_weight, trainer, places[each.name]) for name, each in named.items()}
    )


def are_finite(trainer: HeldTrainer) -> bool:
    """Return whether all weights, and the sum of their squares, are finite."""
    return math.isfinite(sum(_square(trainer, index) for index in range(len(trainer.parameters))))


def _square(trainer: HeldTrainer, index: int) -> float:
    """Return the square of the length of a parameter's weights."""
    flat = mx.nd.array(_weight(trainer, index)).reshape((-1,))
    return float(mx.nd.dot(flat, flat).asscalar()) if flat.size else 0.0


def _weight(trainer: HeldTrainer, index: int) -> Array:
    parameter = trainer.parameters[index]
    if any(parameter is each for each in trainer.held):
        found: Array = parameter.data().asnumpy()
        return found
    array = np.empty(math.prod(parameter.shape), np.float32)
    trainer.owners.pull([index], [array]).wait()
    return array.reshape(parameter.shape)


def load_weights(trainer: HeldTrainer, net: Block, path: Path, is_putting: bool) -> None:
    """Take the weights of a file: what is held here, and the owners' where this worker `is_putting`.

    DataError where a name or shape differs.
    """
    named = weights.named_parameters(net)
    checked_places(path, named)
    found = _opened(path)
    for index, (name, parameter) in enumerate(named.items()):
        if any(parameter is each for each in trainer.held):
            weights.put(parameter, mx.nd.array(found[name]))
        if is_putting:
            trainer.owners.put(index, found[name].ravel())


def checked_places(path: Path, named: Mapping[str, Parameter]) -> dict[str, Place]:
    """Return the places of a file's arrays; DataError where a name or shape is not that of these parameters."""
    try:
        places = params_file.places_in(path)
    except ValueError as error:
        raise DataError(str(error)) from None
    for name in sorted({*places, *named}):
        there, here = (each[name].shape if name in each else None for each in (places, named))
        if there != here:
            raise DataError(
                f"{path}: does not fit this net: parameter '{name}' is {there or 'not'} in the file, {here or 'not'} "
                "in the net"
            )
    return places


def states(
    owners: Owners, optimizer: Optimizer, parameters: Sequence[Parameter], counts: dict[str, int]
) -> NamedArrays:
    """Return the optimizer's arrays of parameters that have been updated, each asked for when it is looked at."""
    # As many for each parameter, whatever its shape.
    made = optimizer.create_state_multi_precision(0, mx.nd.zeros((1,)))
    num_places = len(optimizer_state.state_arrays(made))
    reader = _StateReader(owners, parameters)
    makers: dict[str, Callable[[], Array]] = {
        f"{index}.{place}": functools.partial(reader.read, index, place)
        for index, parameter in enumerate(parameters)
        if str(index) in counts and parameter.grad_req != "null"
        for place in range(num_places)
    }
    return ArraysOneByOne(makers)


def give_states(owners: Owners, path: Path, indices: Sequence[int]) -> None:
    """Give the owners the optimizer's arrays of a file, of parameters that have been updated."""
    found = _opened(path)
    of_index: dict[int, list[tuple[int, str]]] = {}
    for name in found:
        index, place = map(int, name.split("."))
        of_index.setdefault(index, []).append((place, name))
    for index in indices:
        owners.write_state(index, [found[name].ravel() for _, name in sorted(of_index.get(index, []))])


class _StateReader:
    """Reads the arrays of one parameter at a time, of which each is asked for in turn."""

    def __init__(self, owners: Owners, parameters: Sequence[Parameter]):
        self._owners, self._parameters = owners, parameters
        self._index, self._arrays = -1, [np.zeros(0)]

    def read(self, index: int, place: int) -> Array:
        if index != self._index:
            self._arrays = []  # before the next ones come
            self._index, self._arrays = index, self._owners.read_state(index)
        array, shape = self._arrays[place], self._parameters[index].shape
        return array.reshape(shape) if array.size == math.prod(shape) else array


def _opened(path: Path) -> NamedArrays:
    try:
        return params_file.opened(path)
    except ValueError as error:
        raise DataError(str(error)) from None
