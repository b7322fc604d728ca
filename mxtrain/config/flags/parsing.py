"""From flags and `--config` to a run; flags win over the file.

Owns the parser of `mxtrain.fit`'s flags, and what it says of those that it cannot read. The flags are
`config/sections/`'s.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from pathlib import Path
from typing import Any, Sequence, get_type_hints

from mxtrain.config.flags import flag_help, plain_flags, yaml_file
from mxtrain.config.schema import SECTIONS, Run, flag_names, from_flat, to_flat, to_yaml
from mxtrain.core.errors import UsageError, nearest


def parse(argv: Sequence[str] | None = None, program: str = "python -m mxtrain.fit") -> Run:
    """Parse flags (default: those of this process) into a run; exits after --help and --print-config."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    help_text = flag_help.text(arguments, program)
    if help_text is not None:
        print(help_text, end="")
        raise SystemExit(0)
    fields = [field for section in SECTIONS.values() for field in dataclasses.fields(section)]
    plain = plain_flags.read(arguments, {field.name: str(field.type) for field in fields})
    if plain is None:
        return _parse_all(arguments, program)
    return dataclasses.replace(from_flat(plain), explicit=frozenset(plain))


def _parse_all(arguments: Sequence[str], program: str) -> Run:
    from jsonargparse import ArgumentError

    parser = _parser(program)
    try:
        path = file_of(arguments)
        of_file, explicit = None, _named(arguments)
        if path is not None:  # the file's own types are checked before flags hide them
            values = yaml_file.read(path, to_flat(Run()))
            of_file = parser.parse_object(values)
            explicit |= set() if is_whole(path) else values.keys()
        flat = vars(parser.parse_args(arguments, namespace=of_file))
    except ArgumentError as error:
        raise UsageError(_one_line(str(error))) from None
    run = dataclasses.replace(from_flat(flat), explicit=frozenset(explicit))
    if flat["print_config"]:
        sys.stdout.write(to_yaml(run))
        raise SystemExit(0)
    return run


def _named(arguments: Sequence[str]) -> set[str]:
    """Return the names of the flags among these arguments."""
    flags = {each.partition("=")[0] for each in arguments if each.startswith("--")}
    return {flag[2:].replace("-", "_") for flag in flags} - {"config", "print_config"}


def is_whole(path: str) -> bool:
    """Return whether a file was written by `to_yaml`: it names all flags, and does not tell which of them were set."""
    lines = {line.partition(":")[0] for line in Path(path).read_text(encoding="utf-8").splitlines()}
    return {"# data", "# model", "# layout", "# optim"} <= lines  # `output` was called otherwise once


def file_of(arguments: Sequence[str]) -> str | None:
    """Return the value of --config among these flags."""
    import argparse

    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", nargs="?")
    path: str | None = finder.parse_known_args(arguments)[0].config
    return path


def read(path: Path) -> Run:
    """Return the run that a run folder's config.yaml describes."""
    return parse(["--config", str(path)])


@functools.lru_cache(maxsize=None)
def _parser(program: str) -> Any:
    """Return the parser of all flags; to make it takes longer than to parse."""
    import jsonargparse

    parser = jsonargparse.ArgumentParser(
        prog=program, exit_on_error=False, allow_abbrev=False, add_help=False
    )
    parser.add_argument("--config", type=str)
    parser.add_argument("--print-config", action="store_true")
    for section in SECTIONS.values():
        hints = get_type_hints(section)
        for field in dataclasses.fields(section):
            # A switch alone is on; `--switch false` wins over a file where it is.
            switch: dict[str, Any] = {"nargs": "?", "const": True} if hints[field.name] is bool else {}
            is_text = field.name in yaml_file.TEXTS
            parser.add_argument(
                "--" + field.name.replace("_", "-"),
                type=str if is_text else hints[field.name],
                default=str(field.default) if is_text else field.default,
                **switch,
            )
    return parser


def _one_line(message: str) -> str:
    """Return jsonargparse's message as one line that names the flag and the way out."""
    unknown_flag = re.search(r"nrecognized arguments: (\S+)", message)
    if unknown_flag:
        name = unknown_flag.group(1).split("=")[0]
        return f"unknown flag {name}{nearest(name, flag_names())}; --help all lists them"
    wrong_type = re.search(r"Parser key \"(\w+)\":\s+Expected a <class '(\w+)'>. Got value: (.*)", message)
    if wrong_type:
        key, expected, value = wrong_type.groups()
        expected = {"int": "a whole number", "float": "a number", "bool": "true or false"}.get(
            expected, expected
        )
        return f"--{key.replace('_', '-')}: expected {expected}, got '{value}'"
    return " ".join(message.split())
