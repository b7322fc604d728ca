"""One entry of the tables, measured in a process of its own: accuracies of a run, speeds of a net, or a family."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.rounds import in_turns
from benchmarks.int8 import nets

CALIBRATING = {"digits": 512, "resnet18": 128}
SECONDS_OF_A_TURN = 0.3  # a side's, at least one batch


def accuracy(folder: Path, kind: str, seed: str) -> dict[str, Any]:
    """Return the accuracy of each side on all held-out pictures."""
    from benchmarks.int8 import sides

    with sides.of_run(nets.trained(folder, kind, int(seed)), CALIBRATING[kind]) as (found, pictures, labels):
        right = {}
        for name, answer in found.items():
            parts = [answer(pictures[start : start + 32]) for start in range(0, len(pictures), 32)]
            right[name] = float((np.concatenate(parts).argmax(axis=1) == labels).mean())
        return {"accuracy": right, "samples": len(pictures)}


def speed(folder: Path, kind: str, batch: str, rounds: int = 5) -> dict[str, Any]:
    """Return the milliseconds an image of each side: medians over rounds, in which all have a turn."""
    from benchmarks.int8 import sides

    run = nets.barely_trained(folder, kind) if kind not in CALIBRATING else nets.trained(folder, kind, 0)
    with sides.of_run(run, 16) as (found, pictures, _):
        given = np.ascontiguousarray(np.resize(pictures, (int(batch), *pictures.shape[1:])))
        for answer in found.values():
            answer(given), answer(given)  # weights become int8, bfloat16 or blocked with the first
        turns = {
            name: lambda answer=answer: _turn(answer, given) * 1000 / int(batch)
            for name, answer in found.items()
        }
        times = in_turns(turns, rounds)
        return {"milliseconds": {name: statistics.median(each) for name, each in times.items()}}


def _turn(answer: Any, given: Any) -> float:
    """Return the median seconds of a call, of as many as fit into a turn."""
    found, end = [], time.perf_counter() + SECONDS_OF_A_TURN
    while not found or time.perf_counter() < end:
        start = time.perf_counter()
        answer(given)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def family(folder: Path, name: str) -> dict[str, Any]:
    """Return what becomes int8 of a net of a family with random weights, and how far it is from float32 then."""
    from benchmarks import exporting
    from mxtrain.core.errors import UsageError
    from mxtrain.export import comparison, inference_graph, symbol_export
    from mxtrain.export.int8 import int8_graph

    size = exporting.side_of(name)
    task, net = exporting.build(name, size)
    try:
        graph = inference_graph.of_net(net, task)
    except UsageError as error:
        return {"refused": str(error)}
    rng = np.random.default_rng(0)
    batches = [{"data": rng.normal(0, 1, (4, 3, size, size)).astype(np.float32)} for _ in range(4)]
    answers = [comparison.answer_of_net(net, batch)[0] for batch in batches]
    made = int8_graph.quantised(graph, answers, batches)
    with tempfile.TemporaryDirectory() as made_in:
        symbol_export.write(made.graph, Path(made_in))
        apart = comparison.compare(net, graph, symbol_export.answers(graph, Path(made_in)), batches)
    kinds = [each.split()[0] for each in made.in_float32]
    left = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return {"size": size, "int8": made.num_int8, "float32": left, "ranges": made.ranges, **apart._asdict()}
