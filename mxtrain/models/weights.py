"""Net and optimizer as named arrays, and back.

Owns the names under which weights and optimizer states are kept, so that a checkpoint depends neither on Gluon's
name counters nor on pickle.
"""

from __future__ import annotations

from typing import Any, Iterator

from mxtrain.core.errors import DataError
from mxtrain.core.params_file import Arrays
from mxtrain.runtime import mx


def parameters(net: Any) -> dict[str, Any]:
    """The net's parameters by their place in it; shared ones once."""
    named: dict[str, Any] = {}
    for name, parameter in net._collect_params_with_prefix().items():
        if all(parameter is not other for other in named.values()):
            named[name] = parameter
    return named


def layers(net: Any, kind: type) -> Iterator[Any]:
    """Every layer of that kind in the net."""
    if isinstance(net, kind):
        yield net
    for child in net._children.values():
        yield from layers(child, kind)


def of_net(net: Any) -> Arrays:
    """A copy of every parameter as the first device holds it; a mean over devices would move last bits."""
    return {name: parameter.list_data()[0].asnumpy() for name, parameter in parameters(net).items()}


def load(net: Any, path: str) -> None:
    """Put saved weights on all devices of a net of the same shape."""
    arrays, named = mx.nd.load(path), parameters(net)
    for name in sorted({*arrays, *named}):
        if name not in named or name not in arrays:
            where = "the net" if name not in named else "the file"
            raise DataError(f"{path}: does not fit this net: {where} has no parameter '{name}'")
        if arrays[name].shape != named[name].shape:
            shapes = f"{arrays[name].shape} in the file, {named[name].shape} in the net"
            raise DataError(f"{path}: does not fit this net: parameter '{name}' is {shapes}")
        named[name].set_data(arrays[name])


def of_optimizer(trainer: Any) -> Arrays:
    """A copy of every array of the first device's optimizer state; all devices hold the same."""
    return {
        f"{index}.{place}": array.asnumpy()
        for index, state in trainer._updaters[0].states.items()
        for place, array in enumerate(flat(state))
    }


def load_optimizer(trainer: Any, path: str, counts: dict[str, int]) -> None:
    """Give every device's optimizer the saved state and update counts."""
    arrays = mx.nd.load(path)
    optimizer = trainer._optimizer
    for device, updater in enumerate(trainer._updaters):
        for index, parameter in enumerate(trainer._params):
            if str(index) not in counts:
                continue
            weight = parameter.list_data()[device]
            state = optimizer.create_state_multi_precision(index, weight)
            for place, array in enumerate(flat(state)):
                array[:] = arrays[f"{index}.{place}"].as_in_context(array.context)
            updater.states[index] = state
            updater.states_synced[index] = True
    restored = {int(index): count for index, count in counts.items()}
    for context in {weight.context.device_id for weight in trainer._params[0].list_data()}:
        optimizer._all_index_update_counts[context] = dict(restored)
    optimizer.num_update = max(restored.values(), default=0)


def update_counts(trainer: Any) -> dict[str, int]:
    """How often each parameter has been updated, as Adam's bias correction needs it."""
    device = trainer._params[0].list_data()[0].context.device_id
    trainer._optimizer._set_current_context(device)
    return {str(index): count for index, count in trainer._optimizer._index_update_count.items()}


def flat(state: Any) -> list[Any]:
    """The arrays inside an optimizer state: None, an array, or tuples of those."""
    if state is None:
        return []
    if isinstance(state, (list, tuple)):
        return [array for part in state for array in flat(part)]
    return [state]
