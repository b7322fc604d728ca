"""State_dicts as torchvision and timm write them, made without torch: keys and shapes from the names here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from mxtrain.convert.options import ConvertOptions
from mxtrain.convert.torch import torch_weights
from mxtrain.convert.torch.torch_weights import Weights

GOLDEN = (
    Path(__file__).resolve().parents[2] / "data" / "torch_keys.json"
)  # benchmarks/converting/torch_keys.py's


def shapes(model: str, num_classes: int = 10, image_size: int = 224) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a net's parameters, by its graph: large nets' values would take seconds."""
    from mxtrain.models.analysis import shapes
    from mxtrain.models.parameters.weights import named_parameters
    from mxtrain.runtime import mx
    from mxtrain.tasks.classification import Classification

    task = Classification.numbered(ConvertOptions(image_size=image_size).run(model), num_classes)
    net = task.build_net()
    known = shapes.of_variables(net(mx.sym.var("data")), (1, *task.contract().inputs[0]))
    return {place: known[parameter.name] for place, parameter in named_parameters(net).items()}


def weights(model: str, num_classes: int = 10, image_size: int = 224) -> Weights:
    """Return random weights of a net, of a size that keeps its outputs in bounds."""
    rng = np.random.default_rng(0)
    found = {}
    for name, shape in shapes(model, num_classes, image_size).items():
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        array = rng.normal(0, 0.1 if len(shape) == 1 else (2 / fan_in) ** 0.5, shape)
        found[name] = (array + name.endswith(("gamma", "running_var"))).astype(np.float32)
    return found


def state_dict(model: str, scheme: str, num_classes: int = 10, image_size: int = 224) -> dict[str, Any]:
    """Return a state_dict of the net with random weights."""
    return torch_weights.give(model, scheme, weights(model, num_classes, image_size))


def digest(found: dict[str, Any]) -> list[Any]:
    """Return the number of keys and the hash of keys and shapes, as the golden file has them."""
    lines = sorted(f"{key} {list(array.shape)}" for key, array in found.items())
    return [len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()]


def golden() -> dict[str, list[Any]]:
    known: dict[str, list[Any]] = json.loads(GOLDEN.read_text())
    return known
