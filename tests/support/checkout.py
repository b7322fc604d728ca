"""The files of this checkout, or of a source distribution or an archive that was unpacked in its place."""

from __future__ import annotations

import ast
import fnmatch
import functools
import gc
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What builds, tests and runs leave in a checkout.
OF_BUILDS = (
    *(".git", ".venv*", "venv*", "runs", "build", "dist", "*.egg-info", ".*_cache", "__pycache__", "*.so"),
    ".hypothesis",
)
GLOB = ":(glob)"  # before a pattern whose * does not go into folders


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git knows, or would: none of a build or of another tool."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        listed = set(done.stdout.splitlines())
    else:
        names = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not _is_built(path)}
        listed = {name for name in names if not patterns or any(_matches(name, each) for each in patterns)}
    return [ROOT / name for name in sorted(listed) if (ROOT / name).is_file()]


@functools.lru_cache(maxsize=None)
def tree_of(path: Path) -> ast.Module:
    """Return a module's syntax tree, which several tests of all sources look at; it is not to be changed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    gc.freeze()  # it stays, and to look through all of them at each collection takes longer than to make them
    return tree


@functools.lru_cache(maxsize=None)
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all nodes of a module's syntax tree: to find them takes longer than to make them."""
    return list(ast.walk(tree_of(path)))


def _is_built(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(fnmatch.fnmatchcase(part, pattern) for part in parts for pattern in OF_BUILDS)


def _matches(name: str, pattern: str) -> bool:
    if not pattern.startswith(GLOB):
        return fnmatch.fnmatchcase(name, pattern)
    pattern = pattern[len(GLOB) :]
    return fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
