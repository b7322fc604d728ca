"""Names in files of GluonCV for the parameters of a detector: those of the detector, and of its backbone alone.

Owns these names alone; which of them fit a file is `parameters/pretrained.py`'s to find.
"""

from __future__ import annotations

import re
from typing import Mapping, Sequence

from mxtrain import runtime
from mxtrain.config.components.zoo import detector_names, gluoncv_names
from mxtrain.models.detectors.ssd_net import PREFIX
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block


def of_detector(net: Block, name: str) -> Sequence[Mapping[str, str]]:
    """Return the ways in which files name the parameters of the detector called `name`: theirs to ours, each."""
    ours = {own: parameter.name for own, parameter in weights.named_parameters(net).items()}
    own_names = {long[len(PREFIX) :] if long.startswith(PREFIX) else long: own for own, long in ours.items()}
    of_backbone = {
        theirs: own_names[long] for theirs, long in _of_classifier(name).items() if long in own_names
    }
    in_features = {own[len("features.") :]: own for own in ours if own.startswith("features.")}
    return _as_gluoncv(ours), of_backbone, in_features


def _as_gluoncv(ours: Mapping[str, str]) -> dict[str, str]:
    """Return GluonCV's names of an SSD whose features it keeps as one graph, by the long names of its layers."""
    named = {}
    for own, long in ours.items():
        if own.startswith("features."):
            layer = long[len(PREFIX) :] if long.startswith(PREFIX) else long
            if layer.startswith("expand_"):
                layer = layer.replace("running_", "moving_")
            named[f"features.{layer}"] = own
        else:
            named[own] = own
    return named


def _of_classifier(name: str) -> dict[str, str]:
    """Return the parameters of the classifier that is a detector's backbone: by their places, their long names."""
    backbone = backbone_of(name)
    if backbone not in gluoncv_names.GLUONCV_CLASSIFIERS:
        return {}
    module, function = gluoncv_names.function_of(backbone)
    with mx.name.NameManager():
        net = getattr(runtime.load_gluoncv_module(module), function)(pretrained=False)
    return {own: parameter.name for own, parameter in weights.named_parameters(net).items()}


def backbone_of(name: str) -> str:
    """Return the name of the classifier that a detector is made of."""
    inside = name.rpartition("_")[0].replace(f"{detector_names.family_of(name)}_", "", 1)
    return re.sub(r"^(300|512)_|_(lite|dcnv2|duc)$", "", inside)
