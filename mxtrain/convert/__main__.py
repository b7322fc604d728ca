"""`python -m mxtrain.convert SOURCE OUT`: nets and recipes from other frameworks, and nets back into torch.

As a function, `convert`. Owns the flags; what it takes to read and to write each kind is in this folder's other
modules.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.convert")

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence, cast

from mxtrain.config.flags.arguments import Parser
from mxtrain.core import command_name, outputs
from mxtrain.core.errors import UsageError, one_line

if TYPE_CHECKING:
    from mxtrain.convert.caffe.caffe_config import Recipe
    from mxtrain.convert.options import Conversion, ConvertOptions
    from mxtrain.inference.trained_run import OneTrained, Trained

__all__ = ["convert", "main"]

SCHEMES, TORCH = ("torchvision", "timm"), "torch"


def convert(
    source: Trained,
    out: str | os.PathLike[str],
    *,
    to: str = "",
    model: str = "",
    classes: str | os.PathLike[str] | None = None,
    image_size: int | str = 224,
    val_resize: int = 0,
    mean: str = "imagenet",
    deviation: str = "imagenet",
    drop_head: bool = False,
    names: str = "",
    checkpoint: str | None = None,
    samples: int = 0,
    torch: str = "",
) -> dict[str, Any]:
    """Convert what another framework has written, or a trained net for torch; return what was made.

    Args:
        source: a state_dict as .safetensors or .npz; a .params file of MXNet's, or a list of it and its symbol;
            Caffe's solver.prototxt, or a list of it and its train_val.prototxt, whose `out` is a .yaml file; with
            `to="torch"` a run folder, a checkpoint or the `Result` of `fit`.
        out: a run folder to make, which `predict` and the like take, or the path of a .params file; with `to="torch"` a
            path that ends in .safetensors or .npz.
        to: "torch" for the way out.
        model: the net, as `fit`'s flag; found out when left out.
        classes: a text file with the name of a class a line.
        image_size, val_resize, mean, deviation: of the pictures that the net has learnt, as `fit`'s flags.
        drop_head: leave the last layer out, for `--pretrained` with other classes; needs a .params file.
        names: "torchvision" or "timm": whose names the state_dict has.
        checkpoint: of a run folder, as `evaluate` takes it.
        samples: how many Caffe's training set has, where it is not ImageNet.
        torch: the path of a Python that has torch, to compare the outputs with.

    Raises:
        UsageError, DataError: as the command says them, see `mxtrain.core.errors`.
    """
    from mxtrain.convert.options import ConvertOptions
    from mxtrain.train.library import process_isolation

    options = ConvertOptions(
        model=model,
        classes=None if classes is None else Path(classes),
        image_size=image_size,
        val_resize=val_resize,
        mean=mean,
        deviation=deviation,
        drop_head=drop_head,
        names=names,
        torch=os.fspath(torch),
        checkpoint=checkpoint,
        samples=samples,
    )
    sources = source if isinstance(source, (list, tuple)) else [cast("OneTrained", source)]
    with process_isolation.isolated_run():
        return _as_json(_converted(sources, Path(out), to, options))


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.convert", lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Convert what the arguments name, and say what came of it."""
    options = parser().parse_intermixed_args(argv)
    paths = [path for path in (options.run_flag, *options.paths) if path]
    if len(paths) < 2:
        raise UsageError("give two: what is converted, and OUT (see --help)")
    *sources, out = paths

    from mxtrain.checkpoint import run_folder
    from mxtrain.convert.options import ConvertOptions

    run_folder.start_log("error" if options.quiet else "warning")
    conversion_options = ConvertOptions(
        **{field.name: getattr(options, field.name) for field in dataclasses.fields(ConvertOptions)}
    )
    done = _converted(sources, out, options.to, conversion_options)
    if options.json:
        print(json.dumps(_as_json(done)))
        return
    print(done.in_words())
    for note in done.notes:
        print(f"note: {note}")


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = Parser(
        prog=command_name.typed("python -m mxtrain.convert"),
        description="Convert nets that other frameworks have trained, and nets back into torch: SOURCE is a "
        "state_dict of torchvision or timm as .safetensors or .npz, or a .params file of MXNet's, alone or with its "
        "symbol; OUT is a run folder that predict, evaluate, export and fit --pretrained take, or a .params file. With "
        "--to torch SOURCE is a run, OUT a .safetensors or .npz file. Of Caffe's solver.prototxt, and its "
        "train_val.prototxt, a config for fit: OUT is a .yaml file.",
        allow_abbrev=False,
    )
    flags.add_argument(
        "paths", nargs="*", type=Path, metavar="SOURCE OUT", help="what is converted, and into what"
    )
    flags.add_argument("--run", type=Path, metavar="RUN", dest="run_flag", help="SOURCE as a flag")
    flags.add_argument("--checkpoint", help="of a run folder: as mxtrain.evaluate takes it")
    flags.add_argument("--to", choices=(TORCH,), default="", help="the way out: from a run to torch")
    flags.add_argument(
        "--names", choices=SCHEMES, default="", help="whose names a state_dict has; found out when left out"
    )
    flags.add_argument("--model", default="", help="the net, as mxtrain.fit's flag; found out when left out")
    flags.add_argument("--classes", type=Path, metavar="FILE", help="the names of the classes, one a line")
    flags.add_argument(
        "--drop-head", action="store_true", help="leave the last layer out; OUT is a .params file"
    )
    flags.add_argument(
        "--image-size", default=224, help="of the pictures that the net has learnt; default 224"
    )
    flags.add_argument("--val-resize", type=int, default=0, help="as mxtrain.fit's flag")
    for name in ("mean", "deviation"):
        flags.add_argument(f"--{name}", default="imagenet", help="of these pictures, as mxtrain.fit's flag")
    flags.add_argument(
        "--samples",
        type=int,
        default=0,
        metavar="N",
        help="of Caffe's training set, where it is not ImageNet",
    )
    flags.add_argument(
        "--torch", default="", metavar="PYTHON", help="a Python that has torch: compare the outputs with its"
    )
    flags.add_argument("--json", action="store_true", help="print JSON")
    flags.add_argument("--quiet", action="store_true", help="nothing but errors on stderr")
    return flags


def _converted(
    sources: Sequence[OneTrained], out: Path, to: str, options: ConvertOptions
) -> Conversion | Recipe:
    """Return what became of a conversion."""
    from mxtrain.convert.caffe import caffe_config

    options.check()
    if to not in ("", TORCH):
        raise UsageError(f"to={to!r}: give '{TORCH}', or leave it out")
    if to == TORCH:
        if len(sources) > 1:
            raise UsageError(f"{sources[1]}: give one run and OUT")
        return _to_torch(sources[0], out, options)
    paths = [Path(cast("str | os.PathLike[str]", each)) for each in sources]
    for path in paths:
        outputs.refuse_input("OUT", out, path)
    if paths[0].suffix in caffe_config.PROTOTXT:
        return caffe_config.convert(paths, out, options.samples)
    return _from_elsewhere(paths, out, options)


def _to_torch(source: OneTrained, out: Path, options: ConvertOptions) -> Conversion:
    from mxtrain.convert.torch import state_dict
    from mxtrain.inference import trained_run

    if out.suffix not in state_dict.WRITTEN:
        raise UsageError(f"{out}: give a name that ends in {' or '.join(state_dict.WRITTEN)}")
    found = trained_run.find_checkpoint(source, options.checkpoint, "cpu")
    trained_run.refuse_output("OUT", out, found)
    run = trained_run.run_of(found, {})
    task = trained_run.task_of(found, run)
    _load_mxnet()
    from mxtrain.convert.torch import to_torch

    return to_torch.convert(found, run, task, out, options)


def _from_elsewhere(sources: Sequence[Path], out: Path, options: ConvertOptions) -> Conversion:
    from mxtrain.convert import converted_run

    converted_run.refuse(out)
    for path in sources:
        if not path.is_file():
            raise UsageError(f"{path}: {'is a folder; give a file' if path.is_dir() else 'no such file'}")
    _load_mxnet()
    from mxtrain.convert import from_mxnet
    from mxtrain.convert.torch import from_torch

    if from_mxnet.is_taken(sources[0]):
        return from_mxnet.convert(sources, out, options)
    if len(sources) > 1:
        raise UsageError(f"{sources[1]}: give one SOURCE and OUT; a state_dict is one file")
    return from_torch.convert(sources[0], out, options)


def _load_mxnet() -> None:
    from mxtrain import runtime

    runtime.load()


def _as_json(done: Conversion | Recipe) -> dict[str, Any]:
    return {**vars(done), "out": str(done.out), "notes": list(done.notes)}


if __name__ == "__main__":
    raise SystemExit(main())
