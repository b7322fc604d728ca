"""An optimizer's state as named arrays and numbers, and back.

Owns the names under which a checkpoint keeps it: `INDEX.PLACE` for an array, where INDEX is the parameter's position in
its trainer; so checkpoints need no pickle. Does not own the file (`checkpoint/directory.py`), or state on servers
(`kvstore/server_client.py`).
"""

from __future__ import annotations

from typing import Any, Sequence

from mxtrain.core.params_file import Arrays
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray, Optimizer, Parameter

# Attributes that a step sets anyway, or that the update counts stand for.
RESTORED_OTHERWISE = ("lr", "rescale_grad", "num_update")


class ExtraOptimizerState:
    """Numbers that an optimizer changes in attributes of its own, besides its arrays, such as Nadam's `m_schedule`."""

    def __init__(self, optimizer: Optimizer):
        self._optimizer, self._initial = optimizer, _numbers(optimizer)

    def changed(self) -> dict[str, float]:
        """Return the attributes that have changed since the start; others may be flags, which a resume may change."""
        now = _numbers(self._optimizer)
        return {name: number for name, number in now.items() if number != self._initial.get(name)}

    def restore(self, hyperparameters: dict[str, float]) -> None:
        """Set the attributes that `changed` returned."""
        vars(self._optimizer).update(hyperparameters)


def _numbers(optimizer: Optimizer) -> dict[str, float]:
    return {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, (bool, int, float)) and name not in RESTORED_OTHERWISE
    }


def of_updater(updater: Any) -> Arrays:
    """Return a copy of every state array of an updater of MXNet's."""
    return {
        f"{index}.{place}": array.asnumpy()
        for index, state in updater.states.items()
        for place, array in enumerate(state_arrays(state))
    }


def load(updaters: Sequence[Any], parameters: Sequence[Parameter], path: str, counts: dict[str, int]) -> None:
    """Give updaters the arrays of the file `path`, and their optimizer the `counts` of `update_counts`.

    Updater n moves each parameter's array n.
    """
    arrays, optimizer = mx.nd.load(path), updaters[0].optimizer
    for device, updater in enumerate(updaters):
        for index, parameter in enumerate(parameters):
            if str(index) not in counts:
                continue
            weight = parameter.list_data()[device]
            state = optimizer.create_state_multi_precision(index, weight)
            for place, array in enumerate(state_arrays(state)):
                array[:] = arrays[f"{index}.{place}"].as_in_context(array.context)
            updater.states[index] = state
            updater.states_synced[index] = True
    restored = {int(index): count for index, count in counts.items()}
    devices = {weight.context.device_id for parameter in parameters for weight in parameter.list_data()}
    for context in devices:
        optimizer._all_index_update_counts[context] = dict(restored)
    optimizer.num_update = max(restored.values(), default=0)


def update_counts(optimizer: Optimizer, parameters: Sequence[Parameter]) -> dict[str, int]:
    """Return how often each parameter has been updated, which Adam's bias correction depends on.

    Each is counted on its first device.
    """
    counts = optimizer._all_index_update_counts
    of_parameters = {
        index: counts.get(each.list_data()[0].context.device_id, {}).get(index)
        for index, each in enumerate(parameters)
    }
    return {str(index): count for index, count in of_parameters.items() if count is not None}


def state_arrays(state: Any) -> list[NDArray]:
    """Return the arrays inside one parameter's state, which is None, an array, or nested tuples of those."""
    if state is None:
        return []
    if isinstance(state, (list, tuple)):
        return [array for part in state for array in state_arrays(part)]
    return [state]
