"""A script for a Python that has torch: what a net of torchvision or timm gives for some pictures.

    python torch_outputs.py STATE_DICT LIBRARY NET CLASSES CHANNELS PICTURES.npy OUTPUTS.npy

Takes the state_dict strictly: a key too many or too few is an error, but for what a wrapper, as DataParallel, has put
before all of them. Run as a file; imports nothing of mxtrain.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def net_of(library: str, name: str, num_classes: int, channels: int) -> Any:
    """Return the library's net as it makes it."""
    import torch

    # The wheel of torchvision wants torch's wheel for GPUs: beside the one for CPUs its operators in C++ are missing,
    # and registering their shapes would fail. Classifiers need none of them.
    register, torch.library.register_fake = (
        torch.library.register_fake,
        lambda *_, **__: lambda function: function,
    )
    try:
        if library == "timm":
            import timm

            return timm.create_model(name, num_classes=num_classes, in_chans=channels)
        import torchvision.models

        return with_channels(torchvision.models.get_model(name, num_classes=num_classes), channels)
    finally:
        torch.library.register_fake = register


def with_channels(net: Any, channels: int) -> Any:
    """Return the net with a first convolution that takes so many channels; torchvision's take 3, of whatever name."""
    import torch

    first = next(layer for layer in net.modules() if isinstance(layer, torch.nn.Conv2d))
    if first.in_channels != channels:
        first.in_channels = channels
        first.weight = torch.nn.Parameter(first.weight[:, :1].repeat(1, channels, 1, 1))
    return net


def state_dict_of(path: str) -> dict[str, Any]:
    if path.endswith(".npz"):
        import torch

        with np.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    from safetensors.torch import load_file

    found: dict[str, Any] = load_file(path)
    return found


def without_wrapper(arrays: dict[str, Any], own: str) -> dict[str, Any]:
    """Return the arrays without what stands before all names, where `own` is the net's name of one of them."""
    same = [key for key in arrays if key.endswith(f".{own}")]
    prefix = min(same, key=len)[: -len(own)] if same and own not in arrays else ""
    is_wrapped = all(key.startswith(prefix) for key in arrays)
    return {key[len(prefix) :]: array for key, array in arrays.items()} if is_wrapped else arrays


def main() -> None:
    import torch

    path, library, name, num_classes, channels, pictures, outputs = sys.argv[1:]
    net = net_of(library, name, int(num_classes), int(channels))
    net.load_state_dict(without_wrapper(state_dict_of(path), next(iter(net.state_dict()))), strict=True)
    with torch.no_grad():
        np.save(outputs, net.float().eval()(torch.from_numpy(np.load(pictures))).numpy())


if __name__ == "__main__":
    main()
