"""Weights of a net here as a state_dict of torch's, and back: each under its name and in its layout there.

Owns that all of both sides is used, of equal sizes, or the difference is named. What layers are called is
`torch_names.py`'s, files are `state_dict.py`'s. Needs neither torch nor mxnet.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Dict, Mapping, Sequence, Tuple

import numpy as np

from mxtrain.convert.torch import torch_names
from mxtrain.convert.torch.state_dict import NUM_BATCHES, FloatArray, StateDict
from mxtrain.core.errors import DataError, nearest
from mxtrain.data.fields import Array

Shape = Tuple[int, ...]
Weights = Dict[str, FloatArray]

THERE = {"gamma": "weight", "beta": "bias"}
SHOWN = 3
LAST_MAP = 7  # pixels of a side of what a vgg's first dense layer takes
TORCHVISION_EPSILON, EPSILON = 1e-3, 1e-5  # of mobilenetv3's BatchNorms in torchvision, and of all other nets


def keys(model: str, scheme: str, ours: Sequence[str]) -> dict[str, str]:
    """Return for each parameter of the net, as `features.0.gamma`, its key in the library's state_dict."""
    layers = {name.rpartition(".")[0] for name in ours}
    there = torch_names.layer_names(model, scheme, layers)
    parts = {name: name.rpartition(".") for name in ours}
    return {name: f"{there[layer]}.{THERE.get(word, word)}" for name, (layer, _, word) in parts.items()}


def take(path: Path, model: str, scheme: str, state: StateDict, ours: Mapping[str, Shape]) -> Weights:
    """Return the weights of a net whose parameters have these shapes, of a file's arrays.

    DataError that names keys of both sides where one is missing, left over or of another shape.
    """
    there = keys(model, scheme, list(ours))
    called = f"{path}: does not fit {model}, by the names of {scheme}"
    missing = [name for name, key in there.items() if key not in state]
    unused = sorted(set(state) - set(there.values()))
    if missing:
        name = missing[0]
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        near = nearest(there[name], unused or state)
        raise DataError(f"{called}: there is no '{there[name]}' for its parameter '{name}'{more}{near}")
    if unused:
        shown = ", ".join(f"'{key}' {state[key].shape}" for key in unused[:SHOWN])
        more = f" and {len(unused) - SHOWN} more" if len(unused) > SHOWN else ""
        raise DataError(f"{called}: it has no parameter for {shown}{more}; is it another net? give --model")
    for name, key in there.items():
        if not _is_layout_of(state[key].shape, ours[name]):
            raise DataError(f"{called}: '{key}' is {state[key].shape}, its parameter '{name}' {ours[name]}")
    weights = {name: state[key].read().reshape(ours[name]) for name, key in there.items()}
    return _with_epsilon(weights, epsilon(model, scheme), own_epsilon(model))


def _is_layout_of(theirs: Shape, ours: Shape) -> bool:
    """Return whether both are the same numbers in the same order: a dense layer is a convolution of all pixels."""
    same_outputs = theirs[:1] == ours[:1] and math.prod(theirs) == math.prod(ours)
    return theirs == ours or (same_outputs and {len(theirs), len(ours)} == {2, 4})


def give(model: str, scheme: str, weights: Weights) -> dict[str, Array]:
    """Return the state_dict of a net's weights, with what torch has besides: counters, and biases that are 0 here."""
    weights = _with_epsilon(_with_missing_biases(model, weights), own_epsilon(model), epsilon(model, scheme))
    found: dict[str, Array] = {}
    for name, key in keys(model, scheme, list(weights)).items():
        found[key] = weights[name].reshape(_layout(key, weights[name].shape))
        if name.endswith("running_var"):
            found[f"{key.rpartition('.')[0]}.{NUM_BATCHES}"] = np.zeros((), np.int64)
    return found


def _layout(key: str, shape: Shape) -> Shape:
    """Return the shape of a parameter in torch, where it is a dense layer for a convolution or the other way round."""
    if key.startswith("classifier") and len(shape) == 4:
        return shape[:2]
    if key == "pre_logits.fc1.weight":
        return (shape[0], shape[1] // LAST_MAP**2, LAST_MAP, LAST_MAP)
    if key == "pre_logits.fc2.weight":
        return (*shape, 1, 1)
    return shape


def _with_missing_biases(model: str, weights: Weights) -> Weights:
    """Return the weights with zeros for biases that GluonCV's mobilenets lack and torch's have."""
    if torch_names.KNOWN[model].family not in ("mobilenetv2", "mobilenetv3"):
        return weights
    layers = [list(weights)[-1].rpartition(".")[0]]
    if torch_names.KNOWN[model].family == "mobilenetv3":
        layers.append(max((n for n in weights if n.startswith("features.")), key=_place).rpartition(".")[0])
    zeros = {f"{layer}.bias": np.zeros(len(weights[f"{layer}.weight"]), np.float32) for layer in layers}
    return {**weights, **{name: zero for name, zero in zeros.items() if name not in weights}}


def _place(name: str) -> int:
    return int(name.split(".")[1])


def epsilon(model: str, scheme: str) -> float:
    """Return the epsilon of the BatchNorms of that library's net."""
    is_v3 = torch_names.KNOWN[model].family == "mobilenetv3"
    return TORCHVISION_EPSILON if is_v3 and scheme == torch_names.TORCHVISION else EPSILON


def own_epsilon(model: str) -> float:
    """Return the epsilon of the BatchNorms of the net here."""
    return epsilon(model, torch_names.TORCHVISION if model.startswith("torchvision/") else torch_names.TIMM)


def _with_epsilon(weights: Weights, now: float, then: float) -> Weights:
    """Return the weights with which BatchNorms of another epsilon compute the same: their scales make up for it."""
    if now == then:
        return weights
    found = dict(weights)
    for name in weights:
        if name.endswith(".gamma"):
            variance = weights[name[: -len("gamma")] + "running_var"].astype(np.float64)
            scale = np.sqrt((variance + then) / (variance + now))
            found[name] = (weights[name] * scale).astype(np.float32)
    return found
