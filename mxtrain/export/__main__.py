"""`python -m mxtrain.export RUN --to onnx|symbol|int8`: a trained net for other programs; as a function, `export`."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.export")

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from mxtrain.config.components import choices
from mxtrain.config.flags.arguments import Parser
from mxtrain.core import interrupts
from mxtrain.core.errors import one_line
from mxtrain.export.options import FORMATS, ExportOptions, int8_options
from mxtrain.inference import trained_run
from mxtrain.inference.trained_run import Trained

if TYPE_CHECKING:
    from mxtrain.export.exporting import Export

__all__ = ["export", "main"]


def export(
    trained: Trained,
    *,
    to: str,
    out: str | os.PathLike[str] | None = None,
    dynamic_batch: bool = False,
    batch: int | None = None,
    from_pixels: bool = False,
    samples: int = 64,
    calibrate: object = None,
    calibration_samples: int | None = None,
    exclude: Sequence[str] = (),
    tolerance: float | None = None,
    val: object = None,
    checkpoint: str | None = None,
    net: object = None,
    task: object = None,
    hold: str = choices.HOLD_ALL,
) -> Export:
    """Write a trained net for other programs and return its folder, its files, and how far it is from the net.

    It is loaded back and compared with the net on real samples; one that differs is refused, and nothing is left of it.

    Args:
        trained: a run folder, the folder of a checkpoint, or the `Result` of `fit`.
        to: "onnx", "symbol" for MXNet itself, or "int8" for MXNet with whole numbers on a CPU.
        out: the folder that it goes into, which holds nothing else; `export/onnx` or the like in the run's.
        dynamic_batch: ONNX for any number of samples at a time.
        batch: ONNX for so many samples at a time; 1 when left out.
        from_pixels: take pictures as uint8 from 0 to 255, and normalise them inside.
        samples: on how many of them it is compared with the net.
        calibrate: for int8, the samples that tell its ranges, as `fit` takes them; the run's own training set.
        calibration_samples: how many of them, evenly spread; 512 when left out.
        exclude: patterns of names or kinds of operators that stay float32.
        tolerance: how much of the score, such as accuracy, int8 may lose on `val`; 0.01 when left out.
        val: where they are from, as `fit` takes it; the run's own when left out.
        checkpoint: of a run folder "best", "latest", a step, or the path of one.
        net: in the place of the run's, which a folder does not hold if it was an object.
        task: the same for the task.
        hold: "layers" reads the weights one by one, and those of one segment of the net at a time to compare.

    Raises:
        UsageError, DataError: as the command says them, see `mxtrain.core.errors`.
    """
    from mxtrain.train.library import process_isolation

    with process_isolation.isolated_run():
        of_int8 = int8_options(
            to, calibrate=calibrate, samples=calibration_samples, exclude=exclude, tolerance=tolerance
        )
        folder = None if out is None else Path(out)
        options = ExportOptions(to, folder, dynamic_batch, batch, from_pixels, samples, of_int8, hold)
        options.check()
        instead = {"val": val, "train": calibrate, "model": net, "task": task}
        return _exported(trained, checkpoint, "cpu", options, instead)


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.export", lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Make the export that the arguments ask for, and say where it is and how far from the net."""
    options = parser().parse_args(argv)
    of_int8 = int8_options(
        options.to,
        calibrate=options.calibrate,
        samples=options.calibration_samples,
        exclude=options.exclude,
        tolerance=options.tolerance,
    )
    alike = {name: getattr(options, name) for name in ExportOptions._fields if name != "int8"}
    export_options = ExportOptions(**alike, int8=of_int8)
    export_options.check()

    from mxtrain.checkpoint import run_folder

    run_folder.start_log("error" if options.quiet else "warning")
    (trained,) = trained_run.named(options)
    instead = {"val": options.val or None, "train": options.calibrate or None}
    with interrupts.stopped_by_signal("mxtrain.export"):
        made = _exported(trained, options.checkpoint, options.devices, export_options, instead)
    if options.json:
        scores = made.int8_scores._asdict() if made.int8_scores else {}
        facts = {**made.differences._asdict(), **({"int8": scores} if scores else {})}
        print(json.dumps({"folder": str(made.folder), "files": made.files, **facts}))
    else:
        print(f"{made.folder}: {', '.join(made.files)}; {made.differences.in_words()}")
        if made.int8_scores:
            print(made.int8_scores.in_words())


def _exported(
    trained: Trained, which: str | None, devices: str, options: ExportOptions, instead: Mapping[str, Any]
) -> Export:
    """Return the export of the checkpoint `which` of a run; `instead` stands in the place of the run's flags."""
    checkpoint = trained_run.find_checkpoint(trained, which, devices)
    run, objects = trained_run.run_of(checkpoint, instead), trained_run.objects_of(trained, instead)

    from mxtrain.export import exporting

    return exporting.make(checkpoint, run, options, instead["val"] is None, objects)


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser(
        "export", "Write a trained net for other programs, and compare it with the net."
    )
    flags.add_argument(
        "--to", choices=FORMATS, required=True, help="what for: ONNX's runtimes, or MXNet itself"
    )
    flags.add_argument(
        "--out", type=Path, help="the export's own folder; RUN/export/onnx or the like when left out"
    )
    flags.add_argument(
        "--dynamic-batch", action="store_true", help="ONNX for any number of samples at a time"
    )
    flags.add_argument("--batch", type=int, metavar="N", help="ONNX for N samples at a time; 1 when left out")
    pixels = "take pictures as uint8 from 0 to 255, and normalise them inside"
    flags.add_argument("--from-pixels", action="store_true", help=pixels)
    flags.add_argument("--val", help="the .rec file of samples to compare with; the run's own when left out")
    flags.add_argument("--samples", type=int, default=64, help="how many of them")
    trained_run.add_hold(flags)
    of_int8 = flags.add_argument_group("--to int8")
    of_int8.add_argument(
        "--calibrate", help="the .rec file of samples that tell its ranges; the run's own --train"
    )
    of_int8.add_argument(
        "--calibration-samples", type=int, metavar="N", help="how many of them; 512 when left out"
    )
    of_int8.add_argument(
        "--exclude",
        nargs="+",
        default=(),
        metavar="PATTERN",
        help="names or kinds of operators that stay float32",
    )
    of_int8.add_argument(
        "--tolerance", type=float, help="how much of the score may be lost; 0.01 when left out"
    )
    return flags


if __name__ == "__main__":
    raise SystemExit(main())
