"""A script for a Python that has torch: writes the state_dict of a net whose weights are as of a trained one.

    python torch_side.py LIBRARY/NET OUT.safetensors IMAGE_SIZE

BatchNorms get the statistics of a batch of noise, so that outputs stay in bounds, and scales and shifts of some size.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mxtrain" / "convert" / "torch"))


def main() -> None:
    import torch_outputs

    net_name, out, image_size = sys.argv[1:]
    torch.manual_seed(0)
    net = torch_outputs.net_of(*net_name.split("/"), 1000, 3)
    norms = [layer for layer in net.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    for norm in norms:
        torch.nn.init.uniform_(norm.weight, 0.8, 1.2)
        torch.nn.init.normal_(norm.bias, 0, 0.1)
        norm.momentum = None  # the mean over all batches, of which there is one
    for block in (
        net.modules()
    ):  # branches add little to what goes past them, as in trained nets: rounding stays small
        last = getattr(block, "bn3", None) or (
            getattr(block, "bn2", None) if hasattr(block, "downsample") else None
        )
        if last is not None:
            torch.nn.init.uniform_(last.weight, 0.1, 0.3)
    with torch.no_grad():
        net.train()(torch.randn(4, 3, int(image_size), int(image_size)))
    save_file({key: array.contiguous().clone() for key, array in net.state_dict().items()}, out)


if __name__ == "__main__":
    main()
