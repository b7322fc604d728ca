"""From flags and `--config` to a run; flags win over the file.

Owns what comes of the two; flags are read by `fit_parser.py`, and a file by `yaml_file.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any, Sequence

from mxtrain.config.flags import fit_parser, flag_help, from_python, yaml_file
from mxtrain.config.schema import Run, from_flat, to_flat, to_yaml
from mxtrain.core.errors import UsageError

_reader = functools.lru_cache(maxsize=None)(fit_parser.reader)  # to make it takes longer than to parse


def parse(argv: Sequence[str] | None = None, program: str = "python -m mxtrain.fit") -> Run:
    """Parse flags (default: those of this process) into a run; exits after --help and --print-config."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    help_text = flag_help.text(arguments, program)
    if help_text is not None:
        print(help_text, end="")
        raise SystemExit(0)
    flags: dict[str, Any] = vars(_reader(program).parse_args(arguments))
    path, prints = flags.pop("config", None), flags.pop("print_config", False)
    of_file = {} if path is None else _of_file(path)
    explicit = flags.keys() | (set() if path is None or is_whole(path) else of_file.keys())
    run = dataclasses.replace(from_flat({**of_file, **flags}), explicit=frozenset(explicit))
    if prints:
        sys.stdout.write(to_yaml(run))
        raise SystemExit(0)
    return run


def _of_file(path: str) -> dict[str, Any]:
    """Return the flags of a file, checked too where those of the command line hide them."""
    values = yaml_file.read(path, to_flat(Run()))
    try:
        return from_python.checked(values)
    except UsageError as error:
        raise UsageError(f"--config {path}: {error}") from None


def is_whole(path: str) -> bool:
    """Return whether a file was written by `to_yaml`: it names all flags, and does not tell which of them were set."""
    lines = {line.partition(":")[0] for line in Path(path).read_text(encoding="utf-8").splitlines()}
    return {"# data", "# model", "# layout", "# optim"} <= lines  # `output` was called otherwise once


def file_of(arguments: Sequence[str]) -> str | None:
    """Return the value of --config among these flags."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", nargs="?")
    path: str | None = finder.parse_known_args(arguments)[0].config
    return path


def read(path: Path) -> Run:
    """Return the run that a run folder's config.yaml describes."""
    return parse(["--config", str(path)])
