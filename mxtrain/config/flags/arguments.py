"""The argument parser of every command, whose refusals are one line; fit's is made by `fit_parser.py`.

Also checks of values that fit and other commands share.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

from mxtrain.core.errors import UsageError, nearest

UNMIXED = (argparse.PARSER, argparse.REMAINDER)  # positionals that take flags too
LARGEST_SEED = 2**31 - 1  # MXNet's is a C int


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError, and knows what flag a mistyped one is near to."""

    help_flag = "--help"

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words that stand alone wherever they are: of `RUN --top 1 PICTURE` argparse refuses the last."""
        words = list(sys.argv[1:] if args is None else args)
        places = self._get_positional_actions()
        if "--" in words or not places or any(action.nargs in UNMIXED for action in places):
            return super().parse_args(words, namespace)
        return self.parse_intermixed_args(words, namespace)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown flags here, where a command's own are known: its parent leaves the rest to it."""
        parsed, unknown = super().parse_known_args(args, namespace)
        # - alone is no flag, but stdin.
        flag = next((word.partition("=")[0] for word in unknown if word[:1] == "-" != word), None)
        if flag:
            self.error(f"unknown flag {flag}{nearest(flag, self._option_string_actions)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        words = message.split()
        if words[0] == "argument":  # so argparse begins what it says of a flag
            del words[0]
        raise UsageError(f"{' '.join(words)} (see {self.prog} {self.help_flag})")


def png_path(text: str) -> Path:
    """Return the path of a picture to write; another suffix than .png may be a file that must not be replaced."""
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise argparse.ArgumentTypeError(
            f"'{text}' does not end in .png; name the picture, as in picture.png"
        )
    return path
