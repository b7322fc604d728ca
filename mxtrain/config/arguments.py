"""The argument parser of every command but fit, whose flags come from `schema.py`; refusals are one line.

Also checks of values that fit and other commands share.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from mxtrain.core.errors import UsageError

LARGEST_SEED = 2**31 - 1  # MXNet's is a C int


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def png_path(text: str) -> Path:
    """Return the path of a picture to write; another suffix than .png may be a file that must not be replaced."""
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(
            f"'{text}' does not end in .png; name the picture, as in picture.png"
        )
    return path
