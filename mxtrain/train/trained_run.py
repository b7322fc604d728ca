"""A trained run as evaluate and predict open it: their common flags, its checkpoint, its net."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config.arguments import Parser
from mxtrain.core import command_name


def parser(command: str, description: str) -> Parser:
    """Return a parser of the flags that evaluate and predict have in common."""
    program = command_name.typed(f"python -m mxtrain.{command}")
    flags = Parser(prog=program, description=description, allow_abbrev=False)
    flags.add_argument("--run", default="runs/latest", type=Path, help="the run folder, mxtrain.fit's --out")
    flags.add_argument("--checkpoint", default="best", help="best | latest | PATH of a checkpoint")
    flags.add_argument("--devices", default="cpu", help="cpu, cpu:0,1 or gpu:0")
    flags.add_argument("--json", action="store_true", help="print JSON")
    return flags


def find_checkpoint(options: argparse.Namespace) -> Checkpoint:
    """Return the checkpoint that the flags name, verified; needs no mxnet."""
    from mxtrain.checkpoint import resume, run_folder
    from mxtrain.config import checks

    run_folder.start_log("warning")  # or mxnet's logging would put its marks before our lines
    checks.check_present(options.devices)
    return resume.select_checkpoint(options.run, options.checkpoint)


def open_net(found: Checkpoint, devices: str) -> tuple[Any, list[Any]]:
    """Return the net of a checkpoint on `devices` and its contexts; loads mxnet."""
    from mxtrain import runtime

    runtime.load()
    from mxtrain.train import build_net

    places = build_net.contexts(devices)
    return build_net.load_trained(found, places), places
