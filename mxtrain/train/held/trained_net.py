"""The net of a checkpoint, of which one segment is here at a time: `evaluate` and `predict` with `--hold layers`.

Owns reading weights where they lie, those of the next segment while one is computed. What is computed is
`held_net.py`'s.
"""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Mapping, Sequence

from mxtrain.checkpoint import initial_weights
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.checkpoint.input_identity import description_of
from mxtrain.config import Run
from mxtrain.config.checks.hold_checks import FLAG
from mxtrain.core import params_file
from mxtrain.core.errors import UsageError
from mxtrain.core.params_file import Place
from mxtrain.data.fields import Array
from mxtrain.kvstore.connections import octets
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device
from mxtrain.tasks import registry as tasks
from mxtrain.train.held import stored
from mxtrain.train.held.context import described
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.held.segment_weights import SegmentWeights
from mxtrain.train.net import build_net


def load(checkpoint: Checkpoint, run: Run, device: Device) -> HeldNet:
    """Return the net of a checkpoint, which reads its weights as it is computed on `device`, a CPU.

    Inside `build_net.compiling`. UsageError for a net that cannot be cut, and for several checkpoints.
    """
    if checkpoint.others:
        raise UsageError(f"--checkpoint with {FLAG}: the mean of several takes all their weights; give one")
    if checkpoint.widths:
        raise UsageError(f"{FLAG}: {checkpoint.path} is of a net that was pruned by channel; leave it out")
    if checkpoint.state["config"].get("head_chunk"):
        raise UsageError(f"{FLAG}: {checkpoint.path} has its head in chunks, which are joined; leave it out")
    model = build_net.model_in_use(run, run, device)
    task = tasks.of_description(dataclasses.replace(run, model=model), description_of(checkpoint.state))
    net, _, first_weights = described(task, device)
    path, named = initial_weights.weights_of(checkpoint.path), weights.named_parameters(net)
    stored.checked_places(path, named)
    first_weights.fill(net.held)
    lend(net, path, {parameter.name: name for name, parameter in named.items()})
    return net


def lend(net: HeldNet, path: Path, names: Mapping[str, str]) -> None:
    """Lend a net the weights of a file, in which they are called by `names`, by those of parameters.

    Running statistics, which stay in the net and have values already, get those of the file.
    """
    found, places = params_file.opened(path), params_file.places_in(path)
    for parameter in net.held:
        weights.put(parameter, mx.nd.array(found[names[parameter.name]]))
    lender = StoredWeights(path, [places[name] for name in names.values()])
    indices = {name: index for index, name in enumerate(names)}
    net.weights = SegmentWeights(lender, [each.lent for each in net.segments], indices)


class StoredWeights:
    """Weights at these locations in a file; they are read one after the other beside what is computed."""

    def __init__(self, path: Path, locations: Sequence[Place]):
        self._path, self._locations = path, locations
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="weights")

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> _Reading:
        """Start to read weights into these flat arrays."""
        parts = [(self._locations[index], array) for index, array in zip(indices, into)]
        return _Reading(self._reader.submit(_read, self._path, parts))


class _Reading:
    """Weights on their way from a file."""

    def __init__(self, reading: Future[None]):
        self._reading = reading

    def wait(self) -> None:
        self._reading.result()


def _read(path: Path, parts: Sequence[tuple[Place, Array]]) -> None:
    with path.open("rb") as file:
        for place, array in parts:
            assert math.prod(place.shape) == array.size, "a file that fits the net has as many numbers"
            file.seek(place.offset)
            file.readinto(octets(array))
