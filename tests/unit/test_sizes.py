"""A module is read in one go and a function on one screen (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

from tests.support.checkout import ROOT, nodes_of, tracked

MOST_LINES = 320  # of a module
MOST_LINES_OF_BODY = 60  # of a function, without its signature and docstring


def bodies(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the name of each function in a file, and how many lines its statements take."""
    for node in nodes_of(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if statements:
                yield node.name, (node.end_lineno or 0) - statements[0].lineno + 1


def test_a_module_is_read_in_one_go() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert lengths and not {path: length for path, length in lengths.items() if length > MOST_LINES}


def test_a_function_is_seen_on_one_screen() -> None:
    lengths = {
        (str(path.relative_to(ROOT)), name): length for path in sources() for name, length in bodies(path)
    }
    assert lengths and not {where: length for where, length in lengths.items() if length > MOST_LINES_OF_BODY}


def sources() -> list[Path]:
    return tracked("mxtrain/*.py", "tools/*.py")


def test_a_signature_and_a_docstring_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        'def f(\n    a,\n    b,\n):\n    """Add.\n\n    Both.\n    """\n    c = a\n\n    return c + b\n'
    )
    assert list(bodies(path)) == [("f", 3)]
