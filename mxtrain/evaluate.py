"""`python -m mxtrain.evaluate RUN`: scores of a trained net, and where it errs; as a function, `evaluate`."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.evaluate")

import argparse
import contextlib
import logging
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.config.components import choices
from mxtrain.config.flags.arguments import Parser
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.export import exported_net
from mxtrain.inference import trained_run
from mxtrain.inference.trained_run import Trained
from mxtrain.report import evaluation
from mxtrain.report.evaluation import ReportOptions
from mxtrain.report.sinks import json_lines

if TYPE_CHECKING:
    from mxtrain.data.interfaces import Records
    from mxtrain.runtime.types import Device, Net
    from mxtrain.tasks.task import Task
    from mxtrain.train.evaluation import Evaluation

logger = logging.getLogger(__name__)

__all__ = ["evaluate", "main"]


class EvaluateOptions(NamedTuple):
    """Which checkpoints answer, and how, by the flags of these names."""

    checkpoint: str | None = None
    devices: str = "cpu"
    tta: str = ""
    ensemble: bool = False
    hold: str = choices.HOLD_ALL
    masks_at: str = choices.MASKS_AT_NET


class Evaluated(NamedTuple):
    """An evaluation's scores, and what else it has found, on the data set `val`."""

    val: str | None
    scores: dict[str, Any]
    others: dict[str, Any]


def evaluate(
    trained: Trained,
    *,
    val: object = None,
    checkpoint: str | None = None,
    devices: str = "cpu",
    tta: str = "",
    ensemble: bool = False,
    report: bool = False,
    net: object = None,
    loss: object = None,
    task: object = None,
    metric: object = None,
    target: str | None = None,
    val_resize: int | None = None,
    hold: str = choices.HOLD_ALL,
    masks_at: str = choices.MASKS_AT_NET,
) -> dict[str, Any]:
    """Return the scores of a trained net on a data set, by name: `val_loss`, those of the task, and `num_samples`.

    Args:
        trained: a run folder, a folder in its checkpoints/, the `Result` of `fit`, or a list of these; or an export, as
            RUN/export/int8.
        val: the data set, as `fit` takes it; the run's own when left out.
        checkpoint: "best" (when left out), "latest", a step, or the path of one; "last:5", "best:3" or several joined
            by commas. Of several, as of several in `trained`, the mean of the weights is evaluated.
        devices: as in `fit`'s flag, "cpu:0,1" for instance.
        tta: "flip", "crops" or "flip+crops": the mean answer to several views of each picture.
        ensemble: the mean answer of several checkpoints, in the place of their mean weights.
        report: also `classes` and `worst` as in docs/records.md, with `class_names`, `target_names` and `checkpoints`.
        net: in the place of the run's, which a folder does not hold if it was an object. It gets the checkpoint's
            weights, and afterwards its own again if it has some.
        loss: the same for the loss.
        task: the same for the task.
        metric: the same for the metrics.
        target: the columns of a table `val` that are to be predicted; the run's own when left out.
        val_resize: the short side of pictures before the centre is cut out; the run's own when left out.
        hold: "layers" reads the weights of one segment of the net at a time.
        masks_at: "original" judges masks in the sizes of the pictures as they came, "net" in that of the net.

    Raises:
        UsageError, DataError: as the command says them, see `mxtrain.core.errors`.
    """
    from mxtrain.train.library import process_isolation

    options = EvaluateOptions(checkpoint, devices, tta, ensemble, hold, masks_at)
    objects = {"val": val, "model": net, "loss": loss, "task": task, "metric": metric}
    with process_isolation.isolated_run():
        evaluated = _evaluated(trained, options, {**objects, "target": target, "val_resize": val_resize})
    return {**evaluated.scores, **evaluated.others} if report else evaluated.scores


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.evaluate", lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Print the scores of the net that the arguments name: a line for scripts, and tables for people."""
    options = parser().parse_args(argv)

    from mxtrain.checkpoint import run_folder

    run_folder.start_log(
        "error" if options.quiet else "warning"
    )  # or mxnet's logging would put its marks before our lines
    trained = trained_run.named(options)
    if options.graph:
        _graph(trained, options)
        return
    _refuse_flags_of_graph(options)
    instead = {name: getattr(options, name) for name in ("val", "val_resize", "target", "metric")}
    evaluate_options = EvaluateOptions(*(getattr(options, name) for name in EvaluateOptions._fields))
    val, scores, others = _evaluated(trained, evaluate_options, instead, shows=not options.quiet)
    if options.json:
        print(json_lines.text({**scores, **others}))
        return
    print(f"{val}: {evaluation.in_line(scores, len(others.get('class_names', ())))}")
    if not options.quiet:
        print("\n" + evaluation.in_words({**scores, **others}, ReportOptions(options.sort, options.all)))


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser(
        "evaluate", "Evaluate a trained net, or the mean of the weights of several.", takes="runs"
    )
    flags.add_argument("--val", help="the .rec file or files; the run's own --val when left out")
    flags.add_argument("--val-resize", type=int, help="pictures' short side before the centre is cut out")
    flags.add_argument("--target", help="of a table: the columns that are to be predicted, joined by commas")
    flags.add_argument(
        "--metric", help="what to tell besides, as for mxtrain.fit; the run's own when left out"
    )
    flags.add_argument(
        "--tta",
        default="",
        help="the mean answer to views of each picture: flip | crops (the centre and the corners) | of masks "
        "scales, and windows (over twice the height and width) | several joined by +",
    )
    flags.add_argument(
        "--ensemble", action="store_true", help="of several checkpoints the mean answer, not the mean weights"
    )
    trained_run.add_hold(flags)
    masks_at = "judge masks in the size that the net sees (default) or in those of the pictures as they came"
    flags.add_argument("--masks-at", choices=choices.MASKS_AT, default=choices.MASKS_AT_NET, help=masks_at)
    flags.add_argument("--sort", choices=evaluation.COLUMNS, default="", help="classes by this, lowest first")
    flags.add_argument("--all", action="store_true", help="every class, and every pair that was confused")
    graph = (
        "no scores: the layers of RUN, or of a model by its name, with shapes, parameters, MACs and memory"
    )
    flags.add_argument("--graph", action="store_true", help=graph)
    flags.add_argument("--depth", type=int, help="of --graph: how many blocks within blocks are shown")
    picture = "of --graph: draw it into FILE.html or FILE.svg; RUN/export/graph.html when left out"
    flags.add_argument("--picture", nargs="?", type=Path, const=Path(), metavar="FILE", help=picture)
    flags.add_argument("--onnx", type=Path, metavar="FILE", help="of --graph: write it as ONNX, for Netron")
    flags.add_argument("--image-size", default="", help="of --graph MODEL: 224 when left out, or 224x320")
    flags.add_argument("--num-classes", type=int, help="of --graph MODEL: 1000 when left out")
    return flags


def _graph(named: Sequence[Path], options: argparse.Namespace) -> None:
    """Print what a net consists of."""
    from mxtrain.export.drawing import net_graph

    if len(named) > 1:
        raise UsageError(f"--graph {named[0]} {named[1]}: give one run or model")
    graph_flags = {
        name: getattr(options, name) for name in net_graph.GraphOptions._fields if name != "as_json"
    }
    print(
        net_graph.show(
            named[0], options.checkpoint, net_graph.GraphOptions(**graph_flags, as_json=options.json)
        )
    )


def _refuse_flags_of_graph(options: argparse.Namespace) -> None:
    for flag in ("depth", "picture", "onnx", "image_size", "num_classes"):
        if getattr(options, flag) not in (None, ""):
            raise UsageError(f"--{flag.replace('_', '-')}: goes with --graph; give that too, or leave it out")


def _evaluated(
    trained: Trained, options: EvaluateOptions, instead: Mapping[str, Any], shows: bool = False
) -> Evaluated:
    """Return the scores of the net, or of the export, that `trained` names, and what else was found.

    `instead` stands in the place of its run's flags; `shows` has stderr show how far it is.
    """
    from mxtrain.inference import ensemble

    trained_run.check_hold(options.hold, options.devices, {"tta": options.tta, "ensemble": options.ensemble})
    exported = exported_net.named(trained, options.checkpoint, options.devices, options.ensemble)
    source, which = (exported.run, str(exported.step)) if exported else (trained, options.checkpoint)
    checkpoint = trained_run.find_checkpoint(source, which, options.devices)
    run, objects = trained_run.run_of(checkpoint, instead), trained_run.objects_of(source, instead)
    task = trained_run.task_of(checkpoint, run, objects)
    ensemble.check(options.tta, task)
    views = ensemble.kinds_of(options.tta)
    read_run = ensemble.reading(run, views)
    reading_task = ensemble.judging_at(trained_run.task_of(checkpoint, read_run, objects), options.masks_at)
    records = _opened(read_run, task, is_own=instead["val"] is None)
    task.check(records)
    answering = (
        _open_net(checkpoint, run, task, options)
        if exported is None
        else exported_net.open_export(exported, run, task, () if task.own_views else views)
    )
    with answering as (net, devices):
        from mxtrain.tasks import registry as tasks
        from mxtrain.train import evaluation

        forward = tasks.function_of(task, task.viewed_forward, views)
        with _shown_progress(len(records), shows) as on_samples:
            found = evaluation.evaluate(reading_task, forward, net, records, devices, on_samples=on_samples)
    assert found is not None, "nobody asks this evaluation to stop"
    if not math.isfinite(found.scores["val_loss"]):
        logger.warning(
            "%s: the loss is no number, as some answers of the net are none; what others say of these means nothing",
            run.data.val,
        )
    others = {
        **({} if exported is None else {"export": str(exported.folder)}),
        "checkpoints": [str(path) for path in (checkpoint.path, *checkpoint.others)],
        "ensemble": options.ensemble,
        "tta": "+".join(views),
        **({"masks_at": options.masks_at} if options.masks_at != choices.MASKS_AT_NET else {}),
        **_details(found, task, records),
    }
    return Evaluated(run.data.val, found.scores, others)


def _opened(run: Run, task: Task, is_own: bool) -> Records:
    """Return the samples of --val."""
    from mxtrain.train.open_data import open_source

    if run.data.val is None:
        raise UsageError("--val is missing: the run had none, give a .rec file")
    try:
        return open_source("--val", run.data.val, run, task, task.objects)
    except DataError as error:
        if not is_own:
            raise
        raise DataError(f"{error} (this is the run's own --val; if that has moved, give --val)") from None


@contextlib.contextmanager
def _open_net(
    checkpoint: Checkpoint, run: Run, task: Task, options: EvaluateOptions
) -> Iterator[tuple[Net, list[Device]]]:
    """Yield what answers as a net, and its devices; loads mxnet."""
    from mxtrain.checkpoint import selection
    from mxtrain.inference import ensemble

    members = selection.members(checkpoint) if options.ensemble else [checkpoint]
    if options.ensemble:
        ensemble.check_ensemble(members, task)
    with contextlib.ExitStack() as opened:
        ways = (options.devices, task.objects, options.hold)
        nets = [
            opened.enter_context(trained_run.net_of(each, run, *ways, joins_layers=True)) for each in members
        ]
        net: Net = nets[0][0]
        averaged = () if task.own_views else ensemble.kinds_of(options.tta)
        if averaged or options.ensemble:
            views = ensemble.views(run, averaged)
            net = ensemble.MeanAnswer([net for net, _ in nets], views, task.metric_kind)
        yield net, nets[0][1]


def _details(evaluated: Evaluation, task: Task, records: Records) -> dict[str, Any]:
    """Return what an evaluation has found besides its numbers, and the names that this needs."""
    found: dict[str, Any] = {}
    for record in evaluated.records:
        others = {key: value for key, value in record.items() if key != "kind"}
        found[record["kind"]] = others["samples"] if record["kind"] == "worst" else others
    for sample in found.get("worst", []):
        sample["where"] = records.where(sample["sample"])
    known = task.description
    names = list(known.get("class_names", []))
    if "classes" in found:  # a user's task may not name them
        found["class_names"] = [*names, *map(str, range(len(names), len(found["classes"]["support"])))]
    if "targets" in known:
        found["target_names"] = known["targets"]["names"]
    return found


@contextlib.contextmanager
def _shown_progress(num_samples: int, shows: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows on stderr how many samples are done; one that does nothing unless `shows`."""
    from mxtrain.report.sinks.progress import ProgressDisplay

    display = ProgressDisplay(sys.stderr if shows else None, num_samples, 0, "{} samples", "evaluating")
    try:
        yield lambda done, total: display.update(done, f"evaluating: {done} of {total} samples")
    finally:
        display.close(stays=False)


if __name__ == "__main__":
    raise SystemExit(main())
