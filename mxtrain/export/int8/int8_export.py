"""A net in int8 as plain MXNet loads it: calibrated on samples of the training set, and judged on those of --val.

Owns which nets may become int8, the samples that they are calibrated on, and refusing one that has lost too much.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import kernels
from mxtrain.data.interfaces import Records
from mxtrain.export import comparison, real_samples, symbol_export
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8 import int8_graph
from mxtrain.export.options import Int8Options
from mxtrain.runtime import mx
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task
from mxtrain.train.evaluation import evaluate
from mxtrain.train.open_data import open_source

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

logger = logging.getLogger(__name__)

BATCH = 8  # samples at a time in calibration, where all arrays of a net are looked at
MOST_TOLD = 8  # operators that stay in float32; export.json has all
FEW_BATCHES = 4  # to find out which layers lose most
# What no whole-number kernel of MXNet computes, and what they begin from.
OTHER_NETS = {"RNN": "recurrence", "Embedding": "a table of embeddings"}


class Int8Scores(NamedTuple):
    """A net in float32 and in int8, judged on the same samples; and how it became int8."""

    score: str
    float32: float
    int8: float
    samples: int
    calibrated_on: int
    ranges: str
    operators: int
    in_float32: list[str]

    def in_words(self) -> str:
        """Return it for people."""
        left = len(self.in_float32) - MOST_TOLD
        others = ", ".join(self.in_float32[:MOST_TOLD]) + (f" and {left} more" if left > 0 else "")
        others = f"; in float32: {others}" if others else ""
        return (
            f"{self.score} {self.float32:.4f} in float32, {self.int8:.4f} in int8, on {self.samples} samples; "
            f"{self.operators} operators in int8, ranges by {self.ranges} on {self.calibrated_on} samples{others}"
        )


def check(task: Task, graph: InferenceGraph | None = None) -> None:
    """Refuse, with a UsageError, a task or a graph that int8 is not for."""
    name = task.run.model.task
    is_share = task.metric_kind in ("classes", "labels") or task.report() is not None
    if not is_share or task.score.is_lower_better:
        raise UsageError(
            f"--to int8: --task {name} is not judged by how much of its answers is right, so nobody could say what "
            "int8 costs it; --to symbol and onnx export it in float32"
        )
    for node in int8_graph.nodes(graph.symbol) if graph else ():
        if node["op"] in OTHER_NETS:
            raise UsageError(
                f"--to int8: {graph.name if graph else ''} has {OTHER_NETS[node['op']]} (layer {node['name']}), which "
                "MXNet does not compute in int8; --to symbol and onnx export it in float32"
            )


def write(
    net: Block, graph: InferenceGraph, task: Task, options: Int8Options, val: Records, folder: Path
) -> Int8Scores:
    """Write the net in int8 into `folder`, load it back and judge it on `val`; DataError for one that lost too much."""
    check(task, graph)
    problem = kernels.int8_problem()
    if problem:
        logger.warning("--to int8: %s", problem)
    records = _calibration_records(task, options)
    batches = real_samples.read(net, graph, task, records, options.samples, BATCH)
    answers = [comparison.answer_of_net(net, batch)[0] for batch in batches]
    quantised = int8_graph.quantised(graph, answers, batches, options.exclude)
    symbol_export.write(quantised.graph, folder)
    block = symbol_export.loaded(graph, folder)
    float32, in_int8 = (_score(task, each, val) for each in (net, block))
    num_samples = sum(len(answer) for answer in answers)
    scores = Int8Scores(
        task.score.name,
        float32,
        in_int8,
        len(val),
        num_samples,
        quantised.ranges,
        quantised.num_int8,
        quantised.in_float32,
    )
    if not float32 - in_int8 <= options.tolerance:  # as not a number is refused too
        few = int8_graph.sensitive_layers(
            graph, answers[:FEW_BATCHES], batches[:FEW_BATCHES], options.exclude
        )
        raise DataError(
            f"the int8 export of {graph.name} has lost more than --tolerance {options.tolerance:g}: "
            f"{scores.in_words()}. Nothing is left of it; the layers that lose most are left in float32 by "
            f"--exclude {' '.join(few)}"
        )
    return scores


def _calibration_records(task: Task, options: Int8Options) -> Records:
    """Return the samples to calibrate on, those of the run's --train; in its place stands what --calibrate names."""
    flag, source = "--calibrate" if options.calibrate is not None else "--train", task.run.data.train
    if not source:
        raise UsageError(
            "--calibrate is missing: the run has no --train, give a .rec file of samples like its own"
        )
    try:
        records = open_source(flag, source, task.run, task, task.objects)
    except DataError as error:
        if flag == "--calibrate":
            raise
        raise DataError(
            f"{error} (this is the run's own --train; if that has moved, give --calibrate a file of samples like it)"
        ) from None
    if not hasattr(records, "read"):
        raise UsageError(
            f"{flag} {source}: gives samples that nobody can choose from; give --calibrate a .rec file or a Dataset"
        )
    task.check(records)
    if len(records) < options.samples:
        logger.info("%s %s: has %d samples, all of which calibrate", flag, source, len(records))
    return cast(Records, records)


def _score(task: Task, net: Block, val: Records) -> float:
    """Return the task's score of a net on all of `val`."""
    forward = tasks.function_of(task, task.plain_forward)
    found = evaluate(task, forward, net, val, [mx.cpu()])
    assert found is not None, "nobody asks this evaluation to stop"
    return float(found.scores[f"val_{task.score.name}"])
