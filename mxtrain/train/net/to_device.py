"""The copy of an array from the loader's memory to a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxtrain.data.fields import Array
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device, NDArray


def to_device(array: Array, device: Device) -> NDArray:
    """Return a numpy array as an NDArray on `device`; on the first CPU it is no copy."""
    # from_numpy makes its argument read-only for good: a view takes that, the loader's buffer stays writable.
    in_mxnet: NDArray = mx.nd.from_numpy(array[:], zero_copy=True)
    return in_mxnet.as_in_context(device)
