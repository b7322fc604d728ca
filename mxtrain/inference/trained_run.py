"""A trained run as commands open it: their common flags, which run is meant, its checkpoint, its task and its net."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence, Union, cast

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run, batch_plan, program_objects
from mxtrain.config.checks import hold_checks
from mxtrain.config.components import choices
from mxtrain.config.flags import from_python
from mxtrain.config.flags.arguments import Parser
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core import command_name, outputs
from mxtrain.core.errors import UsageError
from mxtrain.core.system import machine

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Device
    from mxtrain.tasks.task import Task
    from mxtrain.train.library.result import Result

CHECKPOINTS = (
    "of a run folder: best (default) | latest | a step | a path; the mean of several: last:5 | best:3 | "
    "20,40,60"
)
VALUES = ("val_resize", "target")  # flags that are never objects
OneTrained = Union[
    str, "os.PathLike[str]", "Result"
]  # a run folder, a checkpoint's, or what `fit` has returned
Trained = Union[OneTrained, Sequence[OneTrained]]
USUAL = Path(config.Output().out)


def parser(command: str, description: str, takes: str = "run") -> Parser:
    """Return a parser of the flags that all commands on a trained run have in common, and of what stands alone.

    That is the "run", "runs", or "inputs", which the command adds itself; `with_inputs` tells the run from them.
    """
    program = command_name.typed(f"python -m mxtrain.{command}")
    flags = Parser(prog=program, description=description, allow_abbrev=False)
    meaning = "a run folder, mxtrain.fit's --out, or a folder in its checkpoints/"
    if takes != "inputs":
        count = {"run": "?", "runs": "*"}[takes]
        flags.add_argument(
            takes, nargs=count, type=Path, metavar="RUN", help=f"{meaning}; {USUAL} when left out"
        )
    flags.add_argument("--run", type=Path, metavar="RUN", dest="run_flag", help=f"{meaning}: RUN as a flag")
    flags.add_argument("--checkpoint", help=CHECKPOINTS)
    flags.add_argument("--devices", default="cpu", help="cpu, cpu:0,1 or gpu:0")
    flags.add_argument("--json", action="store_true", help="print JSON")
    flags.add_argument("--quiet", action="store_true", help="nothing but errors on stderr")
    return flags


def named(options: argparse.Namespace) -> list[Path]:
    """Return the runs that a command without inputs was given, alone or by --run; the usual one where none was."""
    alone = getattr(options, "runs", None) or ([options.run] if getattr(options, "run", None) else [])
    if alone and options.run_flag:
        raise UsageError(f"--run {options.run_flag}: {alone[0]} is the run already; leave one of them out")
    return alone or [options.run_flag or USUAL]


def with_inputs(options: argparse.Namespace, words: Sequence[Any]) -> tuple[Path, list[Any]]:
    """Return the run and the inputs that a command was given as `words`: the first is the run, if it is one.

    With --run all of them are inputs. Where none is a run, the usual one is meant.
    """
    if options.run_flag:
        return options.run_flag, list(words)
    if words and is_run(Path(words[0])):
        return Path(words[0]), list(words[1:])
    if words and not is_run(USUAL) and not Path(words[0]).is_file():
        raise UsageError(
            f"{words[0]}: neither a run folder nor a checkpoint, and there is no {USUAL}, which is meant where none is "
            "given; give the --out of mxtrain.fit first"
        )
    return USUAL, list(words)


def is_run(path: Path) -> bool:
    """Return whether a path is a run folder, or a checkpoint."""
    return directory.of_run(path).is_dir() or directory.is_checkpoint(path) or directory.has_begun(path)


def find_checkpoint(trained: Trained, which: str | None, devices: str) -> Checkpoint:
    """Return the checkpoint that is meant, verified; needs no mxnet. Of several, it is to be averaged with the others.

    `trained` is a run folder, of which `which` says which one or which ones, the folder of a checkpoint, a Result, or
    a list of these.
    """
    from mxtrain.checkpoint import selection
    from mxtrain.config.checks import run_checks

    run_checks.check_present(devices)
    several = trained if isinstance(trained, (list, tuple)) else [cast(OneTrained, trained)]
    if not several:
        raise UsageError("give a run folder, a checkpoint, or the Result of fit; this list of them is empty")
    return selection.select([_folder(each) for each in several], which)


def add_hold(flags: Parser) -> None:
    """Add --hold to the flags of a command that computes answers."""
    meaning = (
        "layers: read the weights of one segment of the net at a time, for a net that memory does not hold"
    )
    flags.add_argument("--hold", choices=choices.HOLD, default=choices.HOLD_ALL, help=meaning)


def check_hold(hold: str, devices: str, others: Mapping[str, object]) -> None:
    """Refuse, with a UsageError, what --hold layers cannot do: `others` are flags that take the whole net."""
    hold_checks.check_known(hold)
    if hold == choices.HOLD_ALL:
        return
    flag = f"--hold {hold}"
    for name, value in others.items():
        if value:
            raise UsageError(f"--{name} with {flag}: takes the whole net; leave one of them out")
    if batch_plan.parse_devices(devices) != (("cpu", 0),):
        raise UsageError(f"{flag} with --devices {devices}: computes on one CPU context; give --devices cpu")


def refuse_output(flag: str, out: Path | None, checkpoint: Checkpoint) -> None:
    """Refuse a file to write that is a part of a checkpoint or of its run, with a UsageError."""
    for path in (checkpoint.path, *checkpoint.others):
        outputs.refuse_part_of_run(flag, out, path)


def _folder(trained: OneTrained) -> Path:
    return trained.checkpoint.parent.parent if hasattr(trained, "checkpoint") else Path(trained)


def objects_of(trained: Trained, instead: Mapping[str, Any]) -> ProgramObjects:
    """Return the objects of the Result that `trained` is, if it is one, and those given `instead` of them."""
    first = trained[0] if isinstance(trained, (list, tuple)) else trained
    objects: ProgramObjects = getattr(first, "objects", NO_OBJECTS)
    return objects.replaced_by({name: value for name, value in instead.items() if name not in VALUES})


def run_of(checkpoint: Checkpoint, instead: Mapping[str, Any]) -> Run:
    """Return the run of a checkpoint with the values of flags given `instead`; of objects it has texts.

    What it names itself can be imported from then on.
    """
    from mxtrain.checkpoint import locations, resume

    flat = checkpoint.state["config"]
    values = {name: value for name, value in instead.items() if name in VALUES and value is not None}
    objects = {name: value for name, value in instead.items() if name not in VALUES}
    whole = {
        **flat,
        **values,
        "head_chunk": 0,
        "head_classes": 0,
    }  # a net answers as a whole, however it has been trained
    before = dataclasses.replace(config.from_flat(whole), explicit=frozenset(whole))  # for another task too
    run, _ = from_python.with_objects(before, objects)
    own = {
        name: str(flat.get(name) or "")
        for name in ("task", "model", "loss", "val", "metric")
        if instead.get(name) is None
    }
    locations.make_importable(
        checkpoint, *(part for text in own.values() for part in program_objects.split_names(text))
    )
    optim = resume.with_micro_batch(run.optim, checkpoint)
    return dataclasses.replace(run, optim=optim, explicit=frozenset())


def task_of(checkpoint: Checkpoint, run: Run, objects: ProgramObjects = NO_OBJECTS) -> Task:
    """Return the task of a checkpoint's run."""
    from mxtrain.checkpoint import locations
    from mxtrain.checkpoint.input_identity import description_of
    from mxtrain.data.text import tokenizers
    from mxtrain.tasks import registry as tasks

    description = description_of(checkpoint.state)
    tokenizer = str(description.get("tokenizer") or "")
    if tokenizers.is_code(tokenizer):
        locations.refuse_of_python(checkpoint.path, tokenizer)
    return tasks.of_description(run, description, objects)


@contextlib.contextmanager
def net_of(
    checkpoint: Checkpoint,
    run: Run,
    devices: str,
    objects: ProgramObjects = NO_OBJECTS,
    hold: str = choices.HOLD_ALL,
    joins_layers: bool = False,
) -> Iterator[tuple[Block, list[Device]]]:
    """Yield the net of a checkpoint on `devices`, and its contexts; loads mxnet.

    By `hold` it is here as a whole, or one segment at a time. One that `joins_layers` is faster, and answers as
    evaluations in training do, to the bit.

    A net that a Python program gave has the checkpoint's weights in the block, and again its own, if any, afterwards.
    """
    from mxtrain import runtime

    threads = run.layout.threads
    runtime.load(threads=threads if 0 < threads <= machine.usable_cores() else None)
    from mxtrain.models.nets import zoo
    from mxtrain.models.parameters import weights
    from mxtrain.optim import precision
    from mxtrain.train.net import build_net

    places = build_net.devices_of(devices)
    lent = zoo.net_object(run.model.model, objects)
    amp = precision.usable_amp(run.model.amp, places[0].device_type)
    values_kept = contextlib.nullcontext() if lent is None else weights.kept(lent)
    with build_net.compiling(amp), build_net.own_settings_kept(run, objects), values_kept:
        if hold == choices.HOLD_LAYERS:
            from mxtrain.train.held import trained_net

            if lent is not None:
                raise UsageError(f"--hold {hold}: the net is an object, which is here already; leave it out")
            net: Block = trained_net.load(checkpoint, run, places[0])
        else:
            net = build_net.load_trained(checkpoint, places, run=run, objects=objects)
        with build_net.standing_still(net, run, objects) if joins_layers else contextlib.nullcontext():
            yield net, places
