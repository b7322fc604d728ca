"""The parser of fit's flags, which are the fields of `config/sections/`: to read them, and to show them."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from typing import Any, Iterable, NamedTuple

from mxtrain.config.flags import typed_text
from mxtrain.config.flags.arguments import Parser
from mxtrain.config.schema import SECTIONS

TAKES = {"int": "N", "float": "X", "Path": "FILE"}  # others a VALUE


class Flag(NamedTuple):
    """A flag by its name in a `Run`, the annotation and the default of its field, and what it means."""

    name: str
    annotation: str
    default: Any
    meaning: str
    section: str

    @property
    def word(self) -> str:
        """The flag as it is typed."""
        return "--" + self.name.replace("_", "-")


@functools.lru_cache(maxsize=None)
def of_run() -> tuple[Flag, ...]:
    """Return the flags that are fields of a `Run`, in the order of `config/schema.py`."""
    return tuple(
        Flag(field.name, str(field.type), field.default, field.metadata["help"], title)
        for title, section in SECTIONS.items()
        for field in dataclasses.fields(section)
    )


def flags() -> tuple[Flag, ...]:
    """Return all flags."""
    return (
        *of_run(),
        Flag("config", "Path", None, "a YAML file of these flags; flags win", "config"),
        Flag("print_config", "bool", False, "print the run as YAML and stop", "config"),
    )


class FitParser(Parser):
    """The parser of these flags, all of which only --help all shows."""

    help_flag = "--help all"


def reader(program: str) -> FitParser:
    """Return a parser that reads the flags that are given, and leaves out others."""
    parser = FitParser(
        prog=program,
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
        formatter_class=functools.partial(argparse.HelpFormatter, width=80),  # not asked for at each flag
    )
    for flag in flags():
        # A switch alone is on; `--switch false` wins over a file where it is.
        switch: dict[str, Any] = {"nargs": "?", "const": True} if flag.annotation == "bool" else {}
        parser.add_argument(flag.word, type=functools.partial(typed_text.read, flag.annotation), **switch)
    return parser


def shown(program: str, flags: Iterable[Flag], rest: str = "") -> argparse.ArgumentParser:
    """Return a parser with the help of these flags, where switches take no value, as they seldom do; `rest` ends it."""
    parser = argparse.ArgumentParser(
        usage=f"{program} [FLAG VALUE]... [PROGRAM.py ARGUMENT...]",
        description="Train a net on .rec files, tables, or what a program gives.",
        epilog=rest,
        add_help=False,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=22),
    )
    groups: dict[str, Any] = {}
    for flag in flags:
        if flag.section not in groups:
            groups[flag.section] = parser.add_argument_group(flag.section)
        takes = TAKES.get(flag.annotation, "VALUE")
        more: dict[str, Any] = {"action": "store_true"} if flag.annotation == "bool" else {"metavar": takes}
        groups[flag.section].add_argument(flag.word, help=flag.meaning.replace("%", "%%"), **more)
    return parser
