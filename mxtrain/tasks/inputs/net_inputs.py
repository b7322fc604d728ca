"""The half of a forward pass that comes before the net: from the arrays of a micro-batch to what the net takes."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, Sequence

from mxtrain.data.augment.normalization import OF_COLOURS, Normalisation

NetInputs = Callable[[Mapping[str, Any]], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Pictures:
    """The pictures, normalised on their device where the loader has not done it."""

    normalisation: Normalisation = OF_COLOURS

    def __call__(self, arrays: Mapping[str, Any]) -> Sequence[Any]:
        from mxtrain.models.normalize import normalized

        return (normalized(arrays["data"], self.normalisation),)


OF_COLOURED_PICTURES = Pictures()


@dataclasses.dataclass(frozen=True)
class Named:
    """The arrays of these names, as they are."""

    names: tuple[str, ...]

    def __call__(self, arrays: Mapping[str, Any]) -> Sequence[Any]:
        return [arrays[name] for name in self.names]
