"""A trained run as evaluate and predict open it: their common flags, its checkpoint, its task and its net."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from mxtrain import config
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run, from_python, given
from mxtrain.config.arguments import Parser
from mxtrain.core import command_name

if TYPE_CHECKING:
    from mxtrain.tasks.task import Task


def parser(command: str, description: str) -> Parser:
    """Return a parser of the flags that evaluate and predict have in common."""
    program = command_name.typed(f"python -m mxtrain.{command}")
    flags = Parser(prog=program, description=description, allow_abbrev=False)
    flags.add_argument("--run", default="runs/latest", type=Path, help="the run folder, mxtrain.fit's --out")
    flags.add_argument("--checkpoint", default="best", help="best | latest | PATH of a checkpoint")
    flags.add_argument("--devices", default="cpu", help="cpu, cpu:0,1 or gpu:0")
    flags.add_argument("--json", action="store_true", help="print JSON")
    return flags


def find_checkpoint(trained: Any, which: str, devices: str) -> Checkpoint:
    """Return the checkpoint `which` of a run, by its folder or its Result, verified; needs no mxnet."""
    from mxtrain.checkpoint import resume
    from mxtrain.config import checks

    checks.check_present(devices)
    folder = trained.checkpoint.parent.parent if hasattr(trained, "checkpoint") else Path(trained)
    return resume.select_checkpoint(folder, which)


def run_of(found: Checkpoint, trained: Any, instead: Mapping[str, Any]) -> Run:
    """Return the run of a checkpoint with the objects of its Result, if `trained` is one, and those given `instead`.

    What it names itself can be imported from then on.
    """
    from mxtrain.checkpoint import locations

    flat = found.state["config"]
    known = config.to_flat(trained.run) if hasattr(trained, "run") else {}
    at_hand = {name: known[name] for name, text in flat.items() if name in known and known[name] == text}
    run = from_python.with_objects(config.from_flat({**flat, **at_hand}), instead)
    own = {
        name: str(flat.get(name) or "")
        for name in ("task", "model", "loss", "val", "metric")
        if instead.get(name) is None
    }
    locations.make_importable(found, *(part for text in own.values() for part in given.parts_of(text)))
    return run


def task_of(found: Checkpoint, run: Run) -> Task:
    """Return the task of a checkpoint's run."""
    from mxtrain.checkpoint.input_identity import description_of
    from mxtrain.tasks import find as tasks

    return tasks.of_description(run, description_of(found.state))


@contextlib.contextmanager
def net_of(found: Checkpoint, run: Run, devices: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the net of a checkpoint on `devices`, and its contexts; loads mxnet.

    A net that a Python program gave has the checkpoint's weights in the block, and again its own, if any, afterwards.
    """
    from mxtrain import runtime

    runtime.load()
    from mxtrain.models import weights, zoo
    from mxtrain.train import build_net

    places = build_net.contexts(devices)
    lent = zoo.given_net(run.model.model) if given.is_object(run.model.model) else None
    with contextlib.nullcontext() if lent is None else weights.kept(lent):
        yield build_net.load_trained(found, places, run=run), places
