"""Nets that take pictures as pixels from 0 to 255, uint8, and normalise them inside.

Owns the graph of such a net, its samples, and the net that it is compared with.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from mxtrain.core import params_file
from mxtrain.core.errors import UsageError
from mxtrain.data.augment import normalization
from mxtrain.data.interfaces import Records
from mxtrain.export import real_samples
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.real_samples import Batch
from mxtrain.models.normalize import factor_and_offset, normalized
from mxtrain.runtime import mx
from mxtrain.tasks.task import Task

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray

FACTOR, OFFSET = "pixels_factor", "pixels_offset"


def takes_pictures(task: Task) -> bool:
    """Return whether the samples of a task are pictures."""
    return "image_size" in task.flags


def check(task: Task) -> None:
    """Refuse a task of something else than pictures."""
    if not takes_pictures(task):
        raise UsageError(f"--from-pixels: --task {task.run.model.task} has no pictures; leave it out")


def taking_pixels(graph: InferenceGraph, task: Task) -> InferenceGraph:
    """Return the graph behind a normalisation, as a graph of uint8."""
    factor, offset = factor_and_offset(normalization.of_description(task.run.data, task.description))
    (name,) = graph.inputs
    wide = mx.sym.Cast(mx.sym.var(name), dtype="float32", name="pixels_cast")
    scaled = mx.sym.broadcast_mul(wide, mx.sym.var(FACTOR, shape=factor.shape), name="pixels_scaled")
    shifted = mx.sym.broadcast_sub(scaled, mx.sym.var(OFFSET, shape=offset.shape), name="pixels_normalized")
    symbol = graph.symbol(**{name: shifted})
    own = {FACTOR: mx.nd.array(factor), OFFSET: mx.nd.array(offset)}
    arguments = params_file.joined(graph.arguments, own)
    return graph._replace(symbol=symbol, arguments=arguments, takes="uint8")


def read(task: Task, records: Records, count: int = 64) -> list[Batch]:
    """Return the pixels of about `count` samples, evenly spread."""
    data = dataclasses.replace(task.run.data, normalize="device")
    of_bytes = dataclasses.replace(task, run=dataclasses.replace(task.run, data=data))
    batches = real_samples.loaded(of_bytes, records, real_samples.spread(records, count))
    return [{"data": np.array(arrays["data"])} for arrays in batches]


class NetOfPixels:
    """A net behind the normalisation that training has."""

    def __init__(self, net: Block, task: Task):
        self._net = net
        self._normalisation = normalization.of_description(task.run.data, task.description)

    def __call__(self, pixels: NDArray) -> Any:
        return self._net(normalized(pixels, self._normalisation))
