"""A field of a section as it is written: its default and the text of --help."""

from __future__ import annotations

import dataclasses
from typing import Any


def flag(default: Any, help: str) -> Any:
    """Return a dataclass field with the text that --help prints for it."""
    return dataclasses.field(default=default, metadata={"help": help})
