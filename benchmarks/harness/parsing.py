"""Flags of the benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.harness import environments

FOLDER = Path("runs/benchmarks")


def parser(
    module: str, doc: str | None, rounds: int | None = None, has_json: bool = False
) -> argparse.ArgumentParser:
    """Return a parser for a benchmark's flags; --help shows its module's docstring."""
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if rounds is not None:
        made.add_argument(
            "--rounds", type=int, default=rounds, help="in which all sides have a turn (%(default)s)"
        )
    if has_json:
        made.add_argument("--json", action="store_true", help="numbers in the place of a table")
    return made


def add_environments(parser: argparse.ArgumentParser, has_setup: bool = True) -> None:
    """Add --envs, and --setup for those who make what is in there."""
    add_folder(parser, "--envs", environments.FOLDER, "where environments are")
    if has_setup:
        parser.add_argument("--setup", action="store_true", help="make those that are missing, and end")


def add_folder(parser: argparse.ArgumentParser, name: str, default: Path | None, words: str) -> None:
    """Add a flag with a folder, which is made absolute."""
    default_text = None if default is None else str(default)
    parser.add_argument(name, type=resolved, default=default_text, metavar="FOLDER", help=words)


def add_page(parser: argparse.ArgumentParser, page: Path | None = None) -> None:
    """Add --write: into this page, or into one that the flag names."""
    if page is None:
        parser.add_argument(
            "--write", type=page_with_marks, metavar="PAGE", help="where the tables go, between marks"
        )
    else:
        words = f"put the tables into docs/{page.name}"
        parser.add_argument("--write", action="store_const", const=page, help=words)


def page_with_marks(text: str) -> Path:
    if not Path(text).is_file():  # said before minutes of measuring, not after
        raise argparse.ArgumentTypeError(f"{text} is not there")
    return Path(text)


def resolved(text: str) -> Path:
    return Path(text).resolve()
