"""Files that are whole after a kill and after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Return when the file, or the names in the folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(path: Path, text: str) -> None:
    """Give the file a new content, whole or not at all."""
    aside = path.with_name(path.name + ".writing")
    aside.write_text(text, encoding="utf-8")
    fsync(aside)
    aside.replace(path)
    fsync(path.parent)
