"""Nets of torch with random weights, converted in both directions, and how far outputs are apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import processes
from mxtrain.convert import convert

ENVIRONMENT = "converting"
FAMILIES = {
    "resnet": [f"torchvision/resnet{depth}" for depth in (18, 34, 50, 101, 152)],
    "wide resnet": ["torchvision/wide_resnet50_2", "torchvision/wide_resnet101_2"],
    "resnet c, d, s": [f"timm/resnet{depth}{kind}" for kind in "cds" for depth in (50, 101, 152)],
    "resnext": ["torchvision/resnext50_32x4d", "timm/resnext101_32x4d", "torchvision/resnext101_64x4d"],
    "densenet": [f"torchvision/densenet{depth}" for depth in (121, 161, 169, 201)],
    "vgg": [f"torchvision/vgg{depth}" for depth in (11, 13, 16, 19)],
    "vgg_bn": [f"torchvision/vgg{depth}_bn" for depth in (11, 13, 16, 19)],
    "vgg, timm's names": ["timm/vgg11", "timm/vgg16_bn"],
    "mobilenet v2": ["torchvision/mobilenet_v2", "timm/mobilenetv2_100"],
    "mobilenet v3": [
        *("torchvision/mobilenet_v3_large", "torchvision/mobilenet_v3_small"),
        *("timm/mobilenetv3_large_100", "timm/mobilenetv3_small_100"),
    ],
}
DEADLINE_SECONDS = 600


def make(net: str, python: Path, path: Path, image_size: int = 224) -> None:
    """Have torch write the state_dict of a net, with running statistics and scales as of a trained one."""
    script = Path(__file__).with_name("torch_side.py")
    processes.run(python, script, net, path, image_size, deadline_seconds=DEADLINE_SECONDS)


def measure(net: str, python: Path, folder: Path) -> dict[str, Any]:
    """Return how far outputs are apart for torch's net converted here, and for this one converted back."""
    folder.mkdir(parents=True, exist_ok=True)
    make(net, python, folder / "there.safetensors")
    taken = convert(folder / "there.safetensors", folder / "here", torch=str(python))
    names = net.partition("/")[0]
    given = convert(folder / "here", folder / "back.safetensors", to="torch", names=names, torch=str(python))
    assert given["model"] == net, f"{net} came back as {given['model']}"
    return {
        "model": taken["model"],
        "in": taken["difference"],
        "out": given["difference"],
        "same_classes": taken["same_classes"] and given["same_classes"],
    }


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
