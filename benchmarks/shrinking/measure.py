"""Size and speed of nets: parameters, operations, bytes on disk, and milliseconds an image, in alternating rounds."""

from __future__ import annotations

import gzip
import statistics
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from benchmarks.harness.rounds import in_turns

BATCHES = (1, 32)
ROUNDS = 15


class Size(NamedTuple):
    """Numbers, operations and bytes of a net."""

    parameters: int
    nonzero: int
    megaflops: float  # of one image, forward
    kilobytes: float  # of its file
    zipped: float  # of the same through gzip


def net_of(run: Path) -> tuple[Any, tuple[int, ...]]:
    """Return the net of a run's newest checkpoint, and the shape of what it takes."""
    from mxtrain.checkpoint import directory
    from mxtrain.inference import trained_run

    found = directory.newest(run / "checkpoints")
    assert found is not None, run
    described = trained_run.run_of(found, {})
    task = trained_run.task_of(found, described)
    from mxtrain.runtime import mx
    from mxtrain.train.net import build_net

    return build_net.load_trained(found, [mx.cpu()], run=described), task.contract().inputs[0]


def size_of(net: Any, shape: Sequence[int], file: Path) -> Size:
    """Return the size of a net whose weights are in `file`."""
    from mxtrain.models.analysis import flops
    from mxtrain.models.parameters import running_statistics

    moving = {parameter.name for parameter in running_statistics.parameters(net)}
    arrays = [each.data().asnumpy() for each in net.collect_params().values() if each.name not in moving]
    computed = flops.of_net(net, [(1, *shape)]) or []
    content = file.read_bytes()
    return Size(
        parameters=sum(array.size for array in arrays),
        nonzero=sum(int((array != 0).sum()) for array in arrays),
        megaflops=sum(each.forward for each in computed) / 1e6,
        kilobytes=len(content) / 1e3,
        zipped=len(gzip.compress(content)) / 1e3,
    )


def speeds(
    nets: Mapping[str, tuple[Any, Sequence[int]]], rounds: int = ROUNDS
) -> dict[str, dict[int, float]]:
    """Return milliseconds an image of each net, by the size of the batch: medians, as the nets take turns."""
    from mxtrain.runtime import mx

    found: dict[str, dict[int, float]] = {name: {} for name in nets}
    for batch in BATCHES:
        inputs = {name: mx.nd.random.uniform(shape=(batch, *shape)) for name, (_, shape) in nets.items()}
        turns = {
            name: lambda name=name, inputs=inputs: _seconds(nets[name][0], inputs[name]) for name in nets
        }
        times = in_turns(turns, rounds, warm_up=2)  # the first ones lay out weights
        for name, of_net in times.items():
            found[name][batch] = 1e3 * statistics.median(of_net) / batch
    return found


def _seconds(net: Any, data: Any) -> float:
    began = time.perf_counter()
    net(data).wait_to_read()
    return time.perf_counter() - began
