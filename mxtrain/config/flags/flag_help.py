"""Text of fit's --help: the flags of most runs, all of them, or those with a word in their name.

Owns which flags most runs need. Made without jsonargparse, which takes longer to load than all of this.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from typing import Any, Collection, NamedTuple, Sequence

from mxtrain.config.schema import SECTIONS, flag_names
from mxtrain.core.errors import UsageError, nearest

FLAGS = ("-h", "--help")
ALL = "all"
# By their names in `config/sections/`.
OF_MOST_RUNS = frozenset(
    (
        *("train", "val", "image_size", "augment", "task", "model", "pretrained", "loss", "amp"),
        *("kvstore", "devices", "num_workers", "batch_size", "optimizer", "lr", "schedule"),
        *("warmup_epochs", "weight_decay", "epochs", "early_stop", "out", "resume", "dry_run", "config"),
    )
)


class Line(NamedTuple):
    """A flag in the help: what it takes, "" for a switch, and what it means."""

    name: str
    takes: str
    meaning: str
    section: str


def text(arguments: Sequence[str], program: str) -> str | None:
    """Return the help for a command line with -h or --help in it, and perhaps a word behind that; None without."""
    for place, (flag, _, word) in enumerate(each.partition("=") for each in arguments):
        if flag in FLAGS:
            following = [word] if word else arguments[place + 1 : place + 2]
            return _text(next((each for each in following if not each.startswith("-")), ""), program)
    return None


def _text(word: str, program: str) -> str:
    every = _lines()
    if word == ALL:
        return _formatted(every, program, "")
    rest = f"{program} --help all lists all {len(every)} flags, --help WORD those with a word in their name, as lr."
    if not word:
        return _formatted([_brief(line) for line in every if line.name in OF_MOST_RUNS], program, rest)
    about = [line for line in every if word.replace("-", "_") in line.name]
    if not about:
        raise UsageError(
            f"--help {word}: no flag is called so{nearest(word, flag_names())}; give --help, or --help all"
        )
    return _formatted(about, program, rest)


def _lines() -> list[Line]:
    """Return all flags, in the order of `config/schema.py`."""
    fields = [(title, each) for title, section in SECTIONS.items() for each in dataclasses.fields(section)]
    return [
        *(Line(field.name, _takes(field), _meaning(field), title) for title, field in fields),
        Line("config", "FILE", "a YAML file of these flags; flags win", "config"),
        Line("print_config", "", "print the run as YAML and stop", "config"),
    ]


def _takes(field: dataclasses.Field[Any]) -> str:
    return "" if isinstance(field.default, bool) else {"int": "N", "float": "X"}.get(str(field.type), "VALUE")


def _meaning(field: dataclasses.Field[Any]) -> str:
    """Return what a flag means, and its default where that says something."""
    default = "" if field.default in (None, "", False) else f" (default: {field.default})"
    return f"{field.metadata['help']}{default}"


def _brief(line: Line) -> Line:
    """Return a line without what comes behind the first semicolon."""
    return line._replace(meaning=line.meaning.partition("; ")[0])


def _formatted(lines: Collection[Line], program: str, rest: str) -> str:
    parser = argparse.ArgumentParser(
        usage=f"{program} [FLAG VALUE]... [PROGRAM.py ARGUMENT...]",
        description="Train a net on .rec files, tables, or what a program gives.",
        epilog=rest,
        add_help=False,
        formatter_class=functools.partial(argparse.HelpFormatter, max_help_position=22),
    )
    groups = {
        title: parser.add_argument_group(title) for title in dict.fromkeys(each.section for each in lines)
    }
    for name, takes, meaning, section in lines:
        more: dict[str, Any] = {"metavar": takes} if takes else {"action": "store_true"}
        flag = "--" + name.replace("_", "-")
        groups[section].add_argument(flag, help=meaning.replace("%", "%%"), **more)
    return parser.format_help()
