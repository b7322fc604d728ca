"""Coordinators, and what their nodes hear."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.support import control_plane


def some(folder: Path, port: int, *names: str, **common: Any) -> dict[str, control_plane.Node]:
    return {name: control_plane.Node(folder, control_plane.place(name, port), **common) for name in names}


def said(node: control_plane.Node, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in node.said:
        assert time.monotonic() < deadline, node.said
        time.sleep(0.01)
