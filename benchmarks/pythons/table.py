"""docs/pythons.md: its text, a line for each row, and reading the lines that are there."""

from __future__ import annotations

import re
import time
from pathlib import Path

from benchmarks.harness.tables import markdown
from benchmarks.pythons.parts import PARTS
from benchmarks.pythons.rows import ROWS, Row

BEFORE_OUTCOMES = ("from", "machine", "root", "compiler", "Python", "OpenCV")
COLUMNS = (*BEFORE_OUTCOMES, *(title for title, _ in PARTS.values()), "made")
TEXT = """# Pythons, NumPys and machines

Made by `python -m benchmarks.pythons --write docs/pythons.md`: for each row a fresh environment with the last commit
in it, then each part in a process of its own, outside of the checkout. With NumPy 1 pip installs `mxtrain[cpu]`; with
NumPy 2 it installs `mxtrain`, and `python -m mxtrain.doctor --install cpu` the rest. A checkout is installed by `make
demo`, and trains. The machines of Debian hold `python3`, `python3-venv`, `make` and certificates, a compiler where the
table says so, and nothing else that mxtrain needs; there a user without root does it all.

{table}

3.7 and older have no NumPy 1.23.5, from which on the door is proven, and newer Pythons than these have not been tried:
`requires-python` refuses them at install time.
"""


def line(row: Row, versions: list[str], outcomes: list[str]) -> list[str]:
    """Return a row's line; `versions` are those of Python, NumPy and OpenCV, none where nothing was installed."""
    place = f"Debian's {row.debian}, minbase" if row.debian else "any"
    python, numpy, opencv = versions or (row.python, row.numpy, "")
    machine = [row.source, place, "no" if row.debian else "yes", "yes" if row.compiler else "no"]
    return [*machine, f"{python}, NumPy {numpy}", opencv, *outcomes, time.strftime("%Y-%m-%d")]


def is_green(cells: list[str]) -> bool:
    """Return whether every part of a line went well."""
    return all(cell == "ok" for cell in cells[len(BEFORE_OUTCOMES) : -1])


def read(path: Path) -> dict[Row, list[str]]:
    """Return the lines that a file has, by their rows; those of rows that are no more are left out."""
    lines: dict[Row, list[str]] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        row = _row_of(cells) if len(cells) == len(COLUMNS) else None
        if row in ROWS:
            lines[row] = cells
    return lines


def keep(path: Path, row: Row, cells: list[str]) -> None:
    """Write a row's line into a file, beside those of other rows; another command may have made some by now."""
    path.write_text(page({**read(path), row: cells}))


def _row_of(cells: list[str]) -> Row | None:
    source, place, _, compiler, versions, *_ = cells
    found = re.match(r"(\d+\.\d+)[.\d]*, NumPy (\d+)", versions)
    debian = re.match(r"Debian's (\w+),", place)
    return Row(found[1], found[2], source, compiler == "yes", debian[1] if debian else "") if found else None


def page(lines: dict[Row, list[str]]) -> str:
    """Return the whole page."""
    return TEXT.format(table=markdown(COLUMNS, (lines[row] for row in ROWS if row in lines)))
