"""What evaluate and predict share: their flags for a trained run, and opening it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mxtrain.arguments import Parser
from mxtrain.config import Run, from_flat


def parser(program: str, description: str) -> Parser:
    made = Parser(prog=program, description=description, allow_abbrev=False)
    made.add_argument("--run", default="runs/latest", type=Path, help="the run folder, mxtrain.fit's --out")
    made.add_argument("--checkpoint", default="best", help="best | latest | PATH of a checkpoint")
    made.add_argument("--devices", default="cpu", help="cpu, cpu:0,1 or gpu:0")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def open_net(options: argparse.Namespace) -> tuple[Any, list[Any], Run, list[str]]:
    """The net that the flags mean, its contexts, the run it is of, and its class names; loads mxnet."""
    from mxtrain import checks, runtime
    from mxtrain.train import resume

    checks.check_present(options.devices)
    found = resume.of_run(options.run, options.checkpoint)
    runtime.load()
    from mxtrain.train import state

    places = state.contexts(options.devices)
    return state.load_net(found, places), places, from_flat(found[1]["config"]), found[1]["class_names"]
