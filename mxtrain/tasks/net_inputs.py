"""The half of a forward pass that comes before the net: from the arrays of a micro-batch to what the net takes."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

NetInputs = Callable[[Mapping[str, Any]], Sequence[Any]]


def of_pictures(arrays: Mapping[str, Any]) -> Sequence[Any]:
    """Return the pictures, normalised on their device where the loader has not done it."""
    from mxtrain.models.normalize import normalized

    return (normalized(arrays["data"]),)


@dataclasses.dataclass(frozen=True)
class Named:
    """The arrays of these names, as they are."""

    names: tuple[str, ...]

    def __call__(self, arrays: Mapping[str, Any]) -> Sequence[Any]:
        return [arrays[name] for name in self.names]
