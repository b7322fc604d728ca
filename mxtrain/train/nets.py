"""From a run to its net: with fresh weights to train, or with those of a checkpoint to use."""

from __future__ import annotations

from typing import Any, Sequence

from mxtrain import config, layout
from mxtrain.config import Run
from mxtrain.models import initializers, zoo
from mxtrain.runtime import mx
from mxtrain.train import freeze, precision, weights
from mxtrain.train.checkpoint import AVERAGES, WEIGHTS, Checkpoint


def contexts(devices: str) -> list[Any]:
    return [mx.Context(kind, index) for kind, index in layout.devices(devices)]


def fresh(run: Run, num_classes: int, places: Sequence[Any]) -> Any:
    """The run's net with random weights, compiled."""
    precision.enable(run.model.amp)
    net = zoo.build(run.model.model, num_classes)
    if run.model.freeze:
        freeze.freeze(net, run.model.freeze)
    if run.model.zero_gamma:
        initializers.zero_gamma(net, run.model.model)
    initializers.initialize(net, run.model.init, places, run.optim.seed)
    zoo.compile(net, run.model.model, places, run.data.image_size, num_classes)
    return net


def trained(found: Checkpoint, places: Sequence[Any]) -> Any:
    """The net of a checkpoint, its averaged weights where it has some, and nothing for further training."""
    path, state = found
    net = fresh(config.from_flat(state["config"]), len(state["class_names"]), places)
    averages = path / AVERAGES
    weights.load(net, str(averages if averages.is_file() else path / WEIGHTS))
    return net
