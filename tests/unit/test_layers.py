"""The import rule between folders in ARCHITECTURE.md, compared with the source."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Iterator

from tests.support.checkout import ROOT, tree_of

PACKER = ROOT / "tools" / "im2rec_wrapper"
ENGINES = ("mxnet", "gluoncv")
LOADING = {f"mxtrain.runtime.{name}" for name in ("mx", "gluoncv", "amp")}

# These never reach mxnet: not through another module, and not by an import inside a function.
WITHOUT_MXNET = ("config", "core", "native", "tables", "data", "cluster", "checkpoint", "launch", "report")
MODULES_WITHOUT_MXNET = (
    *("optim.average_plan", "optim.early_stop", "optim.schedules", "optim.weight_decay"),
    *("train.cluster.join", "train.telemetry.loss_alarm", "train.cluster.node_info", "train.signals"),
    *("doctor.cluster.store_advice", "doctor.cluster.sum_jobs"),
)
# These load it by imports inside functions, once everything that can be refused has been.
LATE = (
    *("__main__", "fit", "evaluate", "predict", "export.__main__", "convert.__main__", "doctor.__main__"),
    *("inference.trained_run", "train.open_data"),
)


def modules() -> dict[str, Path]:
    """Every module of mxtrain, `train.loop` by name, a package by its folder's."""
    found = {}
    for path in (ROOT / "mxtrain").rglob("*.py"):
        parts = path.relative_to(ROOT / "mxtrain").with_suffix("").parts
        found[".".join(parts).replace(".__init__", "")] = path
    del found["__init__"]  # holds the version only
    return found


@functools.lru_cache(maxsize=None)
def imports(path: Path, inside_functions: bool = True) -> list[str]:
    """The dotted names that a file imports; what only a type checker reads is left out."""
    return list(_imports(path, inside_functions))


def _imports(path: Path, inside_functions: bool) -> Iterator[str]:
    pending: list[ast.AST] = [tree_of(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not inside_functions:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert PACKER in path.parents, f"{path}: imports are absolute here"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def edges(inside_functions: bool = True) -> dict[str, set[str]]:
    """The modules of mxtrain that each of them imports; a module's package comes with it."""
    known = modules()
    found: dict[str, set[str]] = {}
    for module, path in known.items():
        targets = {own_module(name, known) for name in imports(path, inside_functions)} - {None, module}
        found[module] = {target for target in targets if target}
    return found


def own_module(imported: str, known: dict[str, Path]) -> str | None:
    """The module of mxtrain that a dotted import means, if it is one."""
    root, *parts = imported.split(".")
    if root == "mxtrain":
        for length in range(len(parts), 0, -1):
            if ".".join(parts[:length]) in known:
                return ".".join(parts[:length])
    return None


def reachable(module: str, graph: dict[str, set[str]]) -> set[str]:
    """The module and everything that its imports lead to."""
    found, pending = {module}, [module]
    while pending:
        new = graph[pending.pop()] - found
        found |= new
        pending += new
    return found


def row_of() -> dict[str, int]:
    """The row of each folder, and of each module at the top, in ARCHITECTURE.md's table; row 1 is the uppermost."""
    table = re.findall(r"^\| (\d+) \| (.+?) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    return {folder: int(row) for row, folders in table for folder in re.findall(r"`(\w+)/?`", folders)}


def test_the_table_names_every_folder() -> None:
    assert set(row_of()) == {module.split(".")[0] for module in modules()}


def test_folders_import_only_from_rows_below() -> None:
    depth = row_of()
    wrong = [
        f"{module} imports {target}"
        for module, targets in edges().items()
        for target in targets
        if module.split(".")[0] != target.split(".")[0]
        and depth[target.split(".")[0]] <= depth[module.split(".")[0]]
    ]
    assert not wrong


def test_only_runtime_imports_mxnet_and_gluoncv() -> None:
    found = {
        module
        for module, path in modules().items()
        for name in imports(path)
        if name.split(".")[0] in ENGINES
    }
    assert found <= {"runtime"}  # which imports them by their names as strings


def test_what_runs_without_mxnet_never_reaches_runtime() -> None:
    graph = edges()
    listed = [module for module in graph if module.split(".")[0] in WITHOUT_MXNET]
    reaching = [
        module for module in (*listed, *MODULES_WITHOUT_MXNET) if "runtime" in reachable(module, graph)
    ]
    assert listed and not reaching


def test_importing_a_command_loads_no_mxnet() -> None:
    """`from mxtrain.runtime import mx` loads it, where `from mxtrain import runtime` does not."""
    graph = edges(inside_functions=False)
    loading = {
        module for module, path in modules().items() if LOADING & set(imports(path, inside_functions=False))
    }
    assert loading
    for module in LATE:
        assert not reachable(module, graph) & loading, module


def test_the_packer_imports_nothing_of_training() -> None:
    known, allowed = modules(), ("data", "report", "config", "core", "native")
    for path in PACKER.rglob("*.py"):
        for imported in imports(path):
            assert imported.split(".")[0] != "tools", f"{path.name}: an installed packer has another name"
            target = own_module(imported, known)
            assert imported.split(".")[0] not in ENGINES, f"{path.name} imports {imported}"
            assert target is None or target.split(".")[0] in allowed, f"{path.name} imports {target}"


def test_no_test_imports_another_test_file() -> None:
    """What several need is in tests/support/."""
    wrong = [
        f"{path.name} imports {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in imports(path)
        if re.match(r"tests\.(\w+\.)*(test_\w+|conftest)\b", name)
    ]
    assert not wrong
