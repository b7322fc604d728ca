"""The parser of every command but fit, whose flags come from `schema.py`: argparse, refusing in one line.

Also what fit and the others hold against one and the same rule.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from mxtrain.core.errors import UsageError

LARGEST_SEED = 2**31 - 1  # MXNet's is a C int


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def picture(text: str) -> Path:
    """Where a picture goes. Any other ending is rather the name of a file that a picture must not replace."""
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(
            f"'{text}' does not end in .png; name the picture, as in picture.png"
        )
    return path
