"""An export as a net that answers, so that it is scored as its run is: `evaluate RUN/export/int8`.

Owns what is read of an export's folder, and which exports cannot be scored. Whose samples it answers to, and what is
made of its answers, is `evaluate.py`'s.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Sequence

from mxtrain.checkpoint import directory
from mxtrain.config import Run
from mxtrain.core import formats
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import machine
from mxtrain.export.target import DESCRIBED
from mxtrain.inference.trained_run import Trained

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device, Net
    from mxtrain.tasks.task import Task


class Export(NamedTuple):
    """Facts in an export's folder, and the run that it was made from, in whose folder it lies."""

    folder: Path
    run: Path
    format: str  # onnx, symbol or int8
    step: int  # of the checkpoint
    inputs: tuple[str, ...]
    batch: int | None  # samples that it takes at a time; None for any number


def in_folder(folder: Path) -> Export | None:
    """Return the export in a folder, and None where it holds none; UsageError or DataError for one without scores."""
    described = folder / DESCRIBED
    if not described.is_file():
        return None
    try:
        metadata = json.loads(described.read_text(encoding="utf-8"))
        formats.refuse_newer(described, metadata.get(formats.KEY, 1), formats.EXPORT)
        inputs = [(str(each["name"]), each["shape"][0]) for each in metadata["inputs"]]
        format_name, step, pictures = (
            str(metadata["format"]),
            int(metadata["step"]),
            metadata.get("pictures") or {},
        )
        takes_pixels = bool(pictures.get("normalised_inside"))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(f"{described}: makes no sense ({error}); export the run again") from None
    run = Path(folder).absolute().parent.parent
    if not directory.of_run(run).is_dir():
        raise UsageError(
            f"{folder}: is an export, and the run that knows its samples and losses is not around it; put it into "
            "RUN/export/, or evaluate the run"
        )
    if metadata.get("table"):
        raise UsageError(f"{folder}: takes rows that were looked up, and is not scored; evaluate the run")
    if takes_pixels:
        raise UsageError(f"{folder}: takes pixels, which is not scored; export it without --from-pixels too")
    batch = inputs[0][1]
    return Export(
        folder,
        run,
        format_name,
        step,
        tuple(name for name, _ in inputs),
        batch if isinstance(batch, int) else None,
    )


def opened(export: Export) -> Net:
    """Return the export as a function of MXNet's arrays, which answers on the CPU as its net does; loads mxnet."""
    if export.format == "onnx":
        return _of_onnx(export)
    from mxtrain.export import symbol_export
    from mxtrain.runtime import mx

    files = (export.folder / name for name in (symbol_export.SYMBOL, symbol_export.PARAMS))
    symbol, params = map(str, files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MXNet's, that it does not know the input's type before there is one
        try:
            block = mx.gluon.SymbolBlock.imports(symbol, list(export.inputs), params)
        except (OSError, ValueError, RuntimeError, mx.MXNetError) as error:
            raise DataError(f"{export.folder}: cannot be loaded ({error}); export the run again") from None
    block.hybridize()
    net: Net = block
    return net


def _of_onnx(export: Export) -> Net:
    from mxtrain.export.onnx import onnx_export
    from mxtrain.runtime import mx

    answer = onnx_export.answers(export.folder, export.batch)

    def net(*arrays: Any) -> Any:
        found = answer({name: array.asnumpy() for name, array in zip(export.inputs, arrays)})
        outputs = [mx.nd.array(each, dtype=each.dtype) for each in found]
        return outputs[0] if len(outputs) == 1 else outputs

    return net


def named(trained: Trained, checkpoint: str | None, devices: str, is_ensemble: bool) -> Export | None:
    """Return the export that `trained` is the folder of, None where it is none; refuse what goes with runs alone."""
    several = trained if isinstance(trained, (list, tuple)) else [trained]
    found = [in_folder(Path(each)) for each in several if isinstance(each, (str, os.PathLike))]
    export = next(filter(None, found), None)
    if export is None:
        return None
    if len(several) > 1 or is_ensemble:
        raise UsageError(f"{export.folder}: an export is scored alone; give the runs for a mean of several")
    if checkpoint is not None:
        raise UsageError(
            f"--checkpoint {checkpoint}: {export.folder} is an export, of step {export.step}; leave it out"
        )
    if not devices.startswith("cpu"):
        raise UsageError(f"--devices {devices}: an export is scored on the CPU; leave it out")
    return export


@contextlib.contextmanager
def open_export(
    export: Export, run: Run, task: Task, views: Sequence[str]
) -> Iterator[tuple[Net, list[Device]]]:
    """Yield an export as a net, or the mean of its answers to `views` of --tta, and its context; loads mxnet."""
    from mxtrain import runtime
    from mxtrain.inference import ensemble

    threads = run.layout.threads
    runtime.load(threads=threads if 0 < threads <= machine.usable_cores() else None)
    net = opened(export)
    if views:
        net = ensemble.MeanAnswer([net], ensemble.views(run, views), task.metric_kind)
    yield net, [runtime.mx.cpu()]
