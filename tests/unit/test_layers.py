"""The import layers of ARCHITECTURE.md, read from the source."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Downwards only: a module may import from its own layer and the ones below it.
LAYERS = [
    ["fit", "evaluate", "predict", "doctor", "trained"],
    ["train.loop"],
    ["train.step", "train.state", "train.diagnose", "train.evaluate", "train.feed", "train.dry_run"],
    [
        "kv.buckets",
        "kv.compress",
        "kv.remote",
        "kv.remote_trainer",
        "kv.rows",
        "kv.probe_worker",
        "kv.server",
        "kv.store",
        "kv.updates",
        "models.zoo",
        "models.small",
        "models.concats",
        "models.prelu",
        "models.sparse",
        "models.losses",
        "models.initializers",
        "models.graph",
        "models.segments",
        "models.remat",
        "train.precision",
        "train.gradients",
        "train.statistics",
        "train.ema",
        "train.optimizers",
        "train.own_optimizers",
        "train.weights",
        "train.handover",
        "train.given",
        "train.nets",
        "train.freeze",
        "train.pretrained",
        "train.teacher",
    ],
    ["runtime"],
]
PURE = [
    "arguments",
    "bounds",
    "config",
    "config_file",
    "durable",
    "checks",
    "errors",
    "interrupts",
    "launch",
    "layout",
    "machine",
    "names",
    "run_folder",
    "spec",
    "models.known",
    "report",
    "data",
    "kv.advice",
    "kv.cluster",
    "kv.compressions",
    "kv.commands",
    "kv.membership",
    "kv.group",
    "kv.guests",
    "kv.leave",
    "kv.limits",
    "kv.line",
    "kv.member",
    "kv.probe",
    "kv.rollcall",
    "kv.sums",
    "kv.unix_sockets",
    "kv.unpickle",
    "kv.watch",
    "train.alarm",
    "train.arrays",
    "train.card",
    "train.checkpoint",
    "train.resume",
    "train.origins",
    "train.early_stop",
    "train.saving",
    "train.decay",
    "train.optimizer_names",
    "train.schedules",
    "train.signals",
]


def layer_of(module: str) -> int:
    for depth, modules in enumerate([*LAYERS, PURE]):
        if any(module == name or module.startswith(name + ".") for name in modules):
            return depth
    raise AssertionError(f"mxtrain.{module} has no layer: add it here and to ARCHITECTURE.md")


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
            assert target is None or layer_of(target) == len(LAYERS), f"{path.name} may not import {target}"


def test_the_layers_name_only_what_exists() -> None:
    known = modules()
    for name in [name for layer in [*LAYERS, PURE] for name in layer]:
        assert any(module == name or module.startswith(name + ".") for module in known), name
