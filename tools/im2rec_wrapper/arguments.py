"""The types of values on the command line, as functions from text that raise ArgumentTypeError."""

from __future__ import annotations

import argparse
from typing import Callable

from mxtrain.core import plain_text


def fraction(text: str) -> float:
    """Parse a number between 0 and 1, neither of them included."""
    number = plain_text.parse_number(text)
    if number is None or not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a fraction between 0 and 1, such as 0.9")
    return number


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the parser of whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        number = plain_text.parse_whole_number(text)
        if number is None or number < least or (most is not None and number > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number {bounds}")
        return number

    return parse
