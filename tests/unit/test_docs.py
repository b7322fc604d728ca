"""The docs say what the code does: flags, files, commands."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.config.components.zoo import gluoncv_names
from tests.support.checkout import ROOT, nodes_of

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_flags_page_is_up_to_date() -> None:
    render = runpy.run_path(str(ROOT / "docs" / "make_flags.py"))["render"]
    assert (ROOT / "docs" / "flags.md").read_text() == render(), "run python docs/make_flags.py"


def test_the_api_page_is_that_of_the_docstrings() -> None:
    render = runpy.run_path(str(ROOT / "docs" / "make_api.py"))["render"]
    assert (ROOT / "docs" / "api.md").read_text() == render(), "run python docs/make_api.py"


def test_tables_of_components_are_those_of_their_entries() -> None:
    program = runpy.run_path(str(ROOT / "docs" / "make_tables.py"))
    pages = [*program["pages"]()]
    assert len(pages) == 6
    for page in pages:
        assert page.read_text() == program["render"](page.read_text()), "run python docs/make_tables.py"


@pytest.mark.parametrize("flag", config.flag_names())
def test_every_flag_is_in_the_docs(flag: str) -> None:
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "flags.md").read_text()
    assert re.search(rf"{re.escape(flag)}(?![\w-])", text), flag


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def places(page: Path) -> set[str]:
    """What a link may lead to on a page: its headings, as GitHub makes anchors of them, and its own anchors."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    names = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return {*names, *re.findall(r'<a id="([\w-]+)"', text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    for target, place in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        if "://" not in target:
            other = page.parent / target if target else page
            assert place in places(other), f"{page.name} links to {target}#{place}"


def test_the_index_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)[^)]*\)", (ROOT / "docs" / "README.md").read_text()))
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()


def test_architecture_gives_each_dependency_its_reason() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    declared = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.S | re.M)
    assert declared
    wheels = re.findall(r'^\s+"([\w-]+)', declared.group(1), re.M)
    assert len(wheels) > 4
    for wheel in wheels:
        assert re.search(rf"^\| `{wheel}` \| .+ \|$", text, re.M), wheel


def test_readme_counts_the_models() -> None:
    assert f"{len(gluoncv_names.GLUONCV_CLASSIFIERS)} classifiers" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_make_targets_in_the_docs_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for target in re.findall(r"\bmake ([a-z-]+)\b", page.read_text()):
        assert target in targets, f"make {target}"


def test_docstrings_stand_where_they_are_read() -> None:
    """A string elsewhere is a comment that went astray."""
    astray = []
    for path in [*(ROOT / "mxtrain").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]:
        bodies = [body for node in nodes_of(path) for body in _bodies(node)]
        for is_documented, statements in bodies:
            for statement in statements[1 if is_documented else 0 :]:
                if isinstance(statement, ast.Expr) and isinstance(
                    getattr(statement.value, "value", None), str
                ):
                    astray.append(f"{path.relative_to(ROOT)}:{statement.lineno}")
    assert not astray


def _bodies(node: ast.AST) -> list[tuple[bool, list[ast.stmt]]]:
    """The blocks of a node's statements, and whether the first one may be a docstring."""
    is_documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [(is_documented, body) for body in found if isinstance(body, list)]
