"""What evaluate and predict share: their flags for a trained run, and opening it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config.arguments import Parser


def parser(program: str, description: str) -> Parser:
    made = Parser(prog=program, description=description, allow_abbrev=False)
    made.add_argument("--run", default="runs/latest", type=Path, help="the run folder, mxtrain.fit's --out")
    made.add_argument("--checkpoint", default="best", help="best | latest | PATH of a checkpoint")
    made.add_argument("--devices", default="cpu", help="cpu, cpu:0,1 or gpu:0")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def find(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint that the flags mean, read and checked once; needs no mxnet."""
    from mxtrain.checkpoint import resume, run_folder
    from mxtrain.config import checks

    run_folder.start_log("warning")  # or mxnet's logging would put its marks before our lines
    checks.check_present(options.devices)
    return resume.select_checkpoint(options.run, options.checkpoint)


def open_net(found: Checkpoint, devices: str) -> tuple[Any, list[Any]]:
    """The net of that checkpoint and its contexts; loads mxnet."""
    from mxtrain import runtime

    runtime.load()
    from mxtrain.train import build_net

    places = build_net.contexts(devices)
    return build_net.trained(found, places), places
