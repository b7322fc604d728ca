"""Installation and main parts of mxtrain in fresh environments: Pythons, both NumPys, wheel, sdist, checkout, Debians.

    python -m benchmarks.pythons --write docs/pythons.md                the whole table, an hour
    python -m benchmarks.pythons --write docs/pythons.md --rows 1 4     these rows anew; the file keeps the others
    python -m benchmarks.pythons --write docs/pythons.md --missing      the rows that the file has not, or not all ok

What is installed is the last commit of this checkout, into an environment that goes away again. Each part runs in a
process of its own with a deadline, outside of the checkout. The file is written after each row, so a run that was
interrupted goes on with --missing. The rows of Debian need root and mmdebstrap, and work inside as a user without root.
A row whose Python is not on this machine is left out and said. Exits with 1 where anything fails.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.harness import parsing
from benchmarks.harness.processes import Failed
from benchmarks.pythons import debian, fresh, table
from benchmarks.pythons.parts import PARTS
from benchmarks.pythons.rows import ROWS, Row

VERSIONS = "import platform, cv2, numpy; print(platform.python_version(), numpy.__version__, cv2.__version__)"


def main() -> int:
    parser = parsing.parser("pythons", __doc__)
    parser.epilog = "\n".join(f"{number:3}  {row.name()}" for number, row in enumerate(ROWS, 1))
    numbers = range(1, len(ROWS) + 1)
    parser.add_argument(
        "--rows", type=int, nargs="+", choices=numbers, metavar="N", help="these, by their numbers below"
    )
    parser.add_argument("--missing", action="store_true", help="those that FILE has not, or not all ok")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table there, too")
    arguments = parser.parse_args()
    rows = asked_for(arguments, table.read(arguments.write) if arguments.write else {})
    lines = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        made = {pool.submit(line_of, row): row for row in rows}
        for each in as_completed(made):
            lines.append(each.result())
            print(" | ".join(lines[-1]), flush=True)
            if arguments.write:
                table.keep(arguments.write, made[each], lines[-1])
    return 0 if all(map(table.is_green, lines)) else 1


def asked_for(arguments: argparse.Namespace, lines: dict[Row, list[str]]) -> list[Row]:
    """Return the rows that the flags ask for and this machine can make."""
    wanted = [ROWS[number - 1] for number in arguments.rows] if arguments.rows else list(ROWS)
    if arguments.missing:
        wanted = [row for row in wanted if row not in lines or not table.is_green(lines[row])]
    return [row for row in wanted if row.debian or _has_python(row)]


def _has_python(row: Row) -> bool:
    found = fresh.interpreter(row.python) is not None
    if not found:
        print(f"{row.name()}: left out, there is no Python {row.python} on this machine", flush=True)
    return found


def line_of(row: Row) -> list[str]:
    """Install as a row says, try all parts, and return its line of the table."""
    machine = debian if row.debian else fresh
    with tempfile.TemporaryDirectory() as folder:
        try:
            python, source = machine.install(row, Path(folder))
            versions = python("-c", VERSIONS).split()
        except Failed as error:
            return table.line(row, [], [f"not installed: {cell_of(error)}"] * len(PARTS))
        script = f"{source}/benchmarks/pythons/parts.py"
        return table.line(row, versions, [outcome(python, script, part) for part in PARTS])


def outcome(python: fresh.Python, *words: str) -> str:
    """Run a part, and return 'ok' or what went wrong, as a cell of the table."""
    try:
        python(*words)
    except Failed as error:
        return cell_of(error)
    return "ok"


def cell_of(error: Failed) -> str:
    """Return the last words of what failed, short enough for a cell."""
    return str(error).replace("|", "/")[:120]


if __name__ == "__main__":
    raise SystemExit(main())
