"""The import layers of ARCHITECTURE.md, read from the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]


def layers() -> list[list[str]]:
    """Of the page, the upper ones first: names of modules, and of packages that stand for all their modules."""
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Import layers")[1].split("\n## ")[0]
    _, *items = re.split(r"^\d\. ", section, flags=re.MULTILINE)
    return [
        [name.replace("/", ".") for name in re.findall(r"`([^`]+)`", item) if not name.startswith("tools/")]
        for item in items
    ]


LAYERS = layers()
PURE = len(LAYERS) - 1


def layer_of(module: str) -> int:
    """That of its own name, or else of its package's."""
    for name in (module, module.split(".")[0]):
        for depth, names in enumerate(LAYERS):
            if name in names:
                return depth
    raise AssertionError(f"mxtrain.{module} has no layer: add it to ARCHITECTURE.md")


def modules() -> dict[str, Path]:
    found = {}
    for path in (ROOT / "mxtrain").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT / "mxtrain").with_suffix("").parts)
        if path.name != "__init__.py":
            found[name] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports anywhere, also inside functions, as a dotted name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def own(imported: str) -> str | None:
    """The mxtrain module that a dotted import means, if it is one."""
    parts = imported.split(".")
    if parts[0] != "mxtrain":
        return None
    known = modules()
    for length in range(len(parts), 1, -1):
        if ".".join(parts[1:length]) in known:
            return ".".join(parts[1:length])
    return None


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_go_down_only(module: str) -> None:
    for imported in imports(modules()[module]):
        target = own(imported)
        if target is not None:
            assert layer_of(target) >= layer_of(module), f"{module} may not import {target}"


@pytest.mark.parametrize("module", sorted(modules()))
def test_only_the_door_imports_mxnet(module: str) -> None:
    engines = [name for name in imports(modules()[module]) if name.split(".")[0] in ("mxnet", "gluoncv")]
    assert module == "runtime" or not engines


def test_the_packer_needs_no_mxnet() -> None:
    for path in (ROOT / "tools" / "im2rec_wrapper").glob("*.py"):
        for imported in imports(path):
            assert imported.split(".")[0] not in ("mxnet", "gluoncv")
            target = own(imported)
            assert target is None or layer_of(target) == PURE, f"{path.name} may not import {target}"


def test_the_page_has_each_layer_and_names_only_what_exists_once() -> None:
    assert [names[0] for names in LAYERS] == [
        "fit",
        "train.loop",
        "train.step",
        "kv.buckets",
        "runtime",
        "config",
    ]
    assert LAYERS[4] == ["runtime"]
    names = [name for names in LAYERS for name in names]
    known = {*modules(), *(module.split(".")[0] for module in modules())}
    assert len(set(names)) == len(names) and set(names) <= known


def test_mypy_reads_all_of_the_pure_ground() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    for module in modules():
        if layer_of(module) == PURE:
            package, path = module.split(".")[0], module.replace(".", "/")
            assert f'"mxtrain/{path}.py"' in settings or f'"mxtrain/{package}"' in settings, module
