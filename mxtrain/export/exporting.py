"""The way of an export: made in a folder aside, loaded back, compared with the net, described, and put in its place."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import mxtrain
from mxtrain.checkpoint import initial_weights
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.config.checks.hold_checks import FLAG
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core import formats
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine
from mxtrain.data import image_fields
from mxtrain.data.augment import normalization
from mxtrain.data.interfaces import Records
from mxtrain.export import comparison, inference_graph, pixel_input, real_samples, symbol_export, target
from mxtrain.export.comparison import Differences
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8 import int8_export
from mxtrain.export.int8.int8_export import Int8Scores
from mxtrain.export.onnx import onnx_boxes, onnx_export, onnx_graph, onnx_masks, onnx_tables
from mxtrain.export.options import ExportOptions
from mxtrain.export.real_samples import Batch
from mxtrain.inference import trained_run
from mxtrain.models.nets.recommender_nets import OverRows
from mxtrain.tasks.detection import Detection
from mxtrain.tasks.segmentation import Segmentation
from mxtrain.tasks.task import Task

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

logger = logging.getLogger(__name__)

CLASSES = "classes.txt"
NUM_COPIES = 4  # of all weights, at least: net, graph, the export as it is read, and as it computes
TOLERANCES = {"onnx": onnx_export.TOLERANCE, "symbol": symbol_export.TOLERANCE}


class Export(NamedTuple):
    """A finished export."""

    folder: Path
    files: list[str]
    differences: Differences  # from the net
    int8_scores: Int8Scores | None = None  # of an export to int8


def make(
    checkpoint: Checkpoint,
    run: Run,
    options: ExportOptions,
    is_own: bool,
    objects: ProgramObjects = NO_OBJECTS,
) -> Export:
    """Make an export of a checkpoint's net and return it; nothing is left of one that fails.

    The samples that it is compared on are the run's --val, which is its own or stands in the place of that.
    """
    task = trained_run.task_of(checkpoint, run, objects)
    _refuse_at_once(checkpoint, task, options)
    folder = options.out or _usual_folder(checkpoint, options.to)
    with target.made(folder) as aside:
        records = real_samples.open_records(task, is_own) if _has_samples(task, options) else None
        with inference_graph.of_checkpoint(checkpoint, run, task, options.hold) as (net, graph):
            batches = _batches(net, graph, task, options, records)
            compared_net: Block | pixel_input.NetOfPixels = net
            if options.from_pixels:
                graph, compared_net = (
                    pixel_input.taking_pixels(graph, task),
                    pixel_input.NetOfPixels(net, task),
                )
            table = net if isinstance(net, OverRows) else None
            if table is not None:
                compared_net = table.head_of_rows()
            metadata = facts(checkpoint, task, graph, options)
            of_table = []
            if table is not None:
                metadata["table"] = onnx_tables.facts(table, getattr(task, "inputs", ()))
                of_table = onnx_tables.put_beside(table, checkpoint.path, aside)
            int8_scores = None
            if options.to == "onnx":
                files = onnx_export.write(graph, aside, options.fixed_batch, metadata, options.is_held)
                parts = compared_net, of_some_sizes(batches), aside, options.fixed_batch, metadata
                files += [] if options.is_held else _write_answers(task, graph, *parts)
                if table is not None and records is not None:
                    files += _write_whole(task, graph, table, records, options, aside, metadata)
                answer = onnx_export.answers(aside, options.fixed_batch, options.is_held)
            else:
                if options.to == "int8":
                    assert records is not None
                    int8_scores = int8_export.write(net, graph, task, options.int8, records, aside)
                    metadata["int8"] = int8_scores._asdict()
                else:
                    symbol_export.write(graph, aside)
                files = [symbol_export.SYMBOL, symbol_export.PARAMS]
                answer = symbol_export.answers(graph, aside, options.is_held)
            has_best = task.metric_kind not in ("numbers", "labels") and not isinstance(
                task, (Detection, Segmentation)
            )
            differences = comparison.compare(compared_net, graph, answer, of_some_sizes(batches), has_best)
        if options.to in TOLERANCES:  # what int8 costs is judged by the score
            comparison.refuse_beyond(TOLERANCES[options.to], differences, options.to, graph)
        files += [
            *(name for name in of_table if name not in files),
            *describe(aside, metadata, task, differences),
        ]
    return Export(folder, files, differences, int8_scores)


def _write_answers(
    task: Task,
    graph: InferenceGraph,
    net: Any,
    batches: Sequence[Batch],
    folder: Path,
    batch: int | None,
    metadata: dict[str, Any],
) -> list[str]:
    """Write the file that answers with boxes or masks, for a task of these, and return its name."""
    parts = net, batches, folder, batch, metadata
    if isinstance(task, Detection):
        metadata["boxes_apart"] = onnx_boxes.write(graph, task, *parts)
        return [onnx_boxes.MODEL]
    if isinstance(task, Segmentation):
        metadata["masks_apart"] = onnx_masks.write(graph, task, *parts)
        return [onnx_masks.MODEL]
    return []


def _write_whole(
    task: Task,
    graph: InferenceGraph,
    table: OverRows,
    records: Records,
    options: ExportOptions,
    folder: Path,
    metadata: dict[str, Any],
) -> list[str]:
    """Write the file with the lookup of a table inside, and return its name; none of a table that is too large."""
    samples = real_samples.loaded(task, records, real_samples.spread(records, options.samples))
    apart = onnx_tables.write(graph, table, folder, options.fixed_batch, metadata, samples)
    metadata["whole_apart"] = apart
    return [] if apart is None else [onnx_tables.MODEL]


def _refuse_at_once(checkpoint: Checkpoint, task: Task, options: ExportOptions) -> None:
    """Refuse what cannot be exported so, before anything is computed."""
    if options.from_pixels:
        pixel_input.check(task)
    if options.to == "onnx":
        onnx_export.check_installed()
    if options.to == "int8":
        int8_export.check(task)
    if not options.is_held:
        refuse_too_large(initial_weights.weights_of(checkpoint.path), options.to)


def refuse_too_large(path: Path, to: str) -> None:
    """Raise UsageError where the weights in a file are sure to be more than this machine can hold for an export."""
    needed, left = NUM_COPIES * path.stat().st_size, machine.available_memory() + machine.swap_left()
    if needed > left:
        way = "export it to int8 where there is more" if to == "int8" else f"{FLAG} reads them one by one"
        raise UsageError(
            f"{path}: export holds its weights {NUM_COPIES} times, {needed / 1e6:,.0f} MB, and this machine has "
            f"{left / 1e6:,.0f} MB left: {way}"
        )


def _usual_folder(checkpoint: Checkpoint, to: str) -> Path:
    """Return the folder of a checkpoint's export: in that of its run."""
    if checkpoint.path.parent.name != "checkpoints":
        raise UsageError(f"{checkpoint.path}: is in no run folder; say with --out where the export goes")
    return checkpoint.path.parent.parent / "export" / to


def _has_samples(task: Task, options: ExportOptions) -> bool:
    """Return whether the run has samples; one that was converted from elsewhere has none, and noise has to do."""
    data = task.run.data
    return bool(data.val or data.train) or options.to == "int8" or not pixel_input.takes_pictures(task)


def _batches(
    net: Block, graph: InferenceGraph, task: Task, options: ExportOptions, records: Records | None
) -> list[Batch]:
    """Return the inputs on which the export is compared with the net."""
    if records is None:
        logger.warning("the run has no data, so this is compared on noise; give --val for real pictures")
        return real_samples.noise(graph, options.samples, "uint8" if options.from_pixels else "float32")
    if options.from_pixels:
        return pixel_input.read(task, records, options.samples)
    return real_samples.read(net, graph, task, records, options.samples)


def facts(
    checkpoint: Checkpoint, task: Task, graph: InferenceGraph, options: ExportOptions
) -> dict[str, Any]:
    """Return what somebody has to know who uses an export: its inputs and outputs, classes, how pictures are made."""
    run = task.run
    metadata: dict[str, Any] = {
        "made_by": f"mxtrain {mxtrain.__version__}",
        "format": options.to,
        "task": run.model.task,
        "model": run.model.model,
        "step": checkpoint.state["step"],
        "inputs": [_described(name, shape, graph.takes, options) for name, shape in graph.inputs.items()],
        "outputs": [
            _described(name, shape, "float32", options)
            for name, shape in zip(onnx_graph.output_names(graph), graph.outputs.values())
        ],
    }
    if "class_names" in task.description:
        metadata["classes"] = task.description["class_names"]
    if pixel_input.takes_pictures(task):
        normalisation = normalization.of_description(run.data, task.description)
        metadata["pictures"] = {
            "colours": "RGB" if run.data.channels == 3 else "grey",
            "size": list(image_fields.shape_of(run.data)[1:]),
            **({} if isinstance(task, Detection) else {"resize": image_fields.resize_of(run.data)}),
            "mean": list(normalisation.mean),
            "deviation": list(normalisation.deviation),
            "normalised_inside": options.from_pixels,
        }
    return metadata


def describe(folder: Path, metadata: dict[str, Any], task: Task, differences: Differences) -> list[str]:
    """Write export.json, and the names of classes a line each, and return the files' names."""
    files = []
    if "classes" in metadata:
        lines = [" ".join(str(name).split()) for name in metadata["classes"]]
        (folder / CLASSES).write_text("\n".join(lines) + "\n", encoding="utf-8")
        files.append(CLASSES)
    others = {name: value for name, value in task.description.items() if name != "class_names"}
    whole = {
        formats.KEY: formats.EXPORT,
        **metadata,
        "description": others,
        "compared": differences._asdict(),
    }
    (folder / target.DESCRIBED).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return [*files, target.DESCRIBED]


def _described(name: str, shape: Sequence[int], dtype: str, options: ExportOptions) -> dict[str, Any]:
    first = onnx_graph.BATCH if options.fixed_batch is None else options.fixed_batch
    return {"name": name, "shape": [first, *shape], "type": dtype}


def of_some_sizes(batches: Sequence[Batch]) -> list[Batch]:
    """Return the samples as a batch of one, a batch of three, and those that are left."""
    first, *others = batches
    parts = [
        {name: array[part] for name, array in first.items()}
        for part in (slice(1), slice(1, 4), slice(4, None))
    ]
    return [part for part in [*parts, *others] if len(next(iter(part.values())))]
