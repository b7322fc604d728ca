"""Modules, classes, functions, parameters and fields are called by what they are, not by what happens to them.

docs/terms.md has the words that are used instead.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, nodes_of, tracked

# Words that every newcomer had to have explained; each had several meanings.
UNCLEAR = {
    *("answering", "asked", "changes", "draws", "found", "given", "going_on", "guest", "judged", "judgement"),
    *("kind", "narrow", "parts", "places", "said", "tell", "teller", "telling", "told", "wish", "written"),
}
# Of parameters and fields, which may have changes, parts and what is written; of a lambda's, which ends at once, none.
UNCLEAR_VARIABLES = {*UNCLEAR, "each", "kinds"} - {"changes", "parts", "written"}
ALLOWED_VARIABLES = {  # by the folder
    ("mxtrain/runtime", "given"): "whatever MXNet hands to a function that this one replaces",
}
MOST_IN_A_FOLDER = 16


def names(path: Path) -> list[str]:
    """The names of a module and of the classes and functions in it, without the underscores around them."""
    defined = [node.name for node in nodes_of(path) if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    return [path.stem, *(name.lower().strip("_") for name in defined)]


def variables(path: Path) -> list[str]:
    """The names of all parameters of functions in a module, and of the annotated fields of classes in it."""
    names: list[str] = []
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef):
            names += [inner.arg for inner in ast.walk(node.args) if isinstance(inner, ast.arg)]
        elif isinstance(node, ast.ClassDef):
            fields = (inner.target for inner in node.body if isinstance(inner, ast.AnnAssign))
            names += [field.id for field in fields if isinstance(field, ast.Name)]
    return [name.lower().strip("_") for name in names]


def test_names_say_what_things_are() -> None:
    unclear = {
        (str(path.relative_to(ROOT)), name)
        for path in tracked("mxtrain/*.py", "tools/*.py")
        for name in names(path)
        if name in UNCLEAR
    }
    assert not unclear


@pytest.mark.parametrize("name", ["Wish", "_told", "Found"])
def test_unclear_names_are_noticed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"class Outer:\n    class {name}: ...\n")
    assert UNCLEAR & set(names(path))


def test_parameters_and_fields_say_what_they_are() -> None:
    unclear = {
        (str(path.parent.relative_to(ROOT)), name)
        for path in tracked("mxtrain/*.py", "tools/*.py")
        for name in variables(path)
        if name in UNCLEAR_VARIABLES
    }
    assert unclear == set(ALLOWED_VARIABLES)


@pytest.mark.parametrize("text", ["def make(_told): ...", "class Made:\n    found: int"])
def test_unclear_parameters_and_fields_are_noticed(text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert UNCLEAR_VARIABLES & set(variables(path))


def test_a_folder_holds_what_one_looks_through_at_once() -> None:
    in_c = tracked("mxtrain/native/operators/*.c", "mxtrain/native/operators/*.h")
    folders = [path.parent for path in (*tracked("mxtrain/*.py", "tools/*.py"), *in_c)]
    crowded = {
        str(folder.relative_to(ROOT)) for folder in folders if folders.count(folder) > MOST_IN_A_FOLDER
    }
    assert not crowded
