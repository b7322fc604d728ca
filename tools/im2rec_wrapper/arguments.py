"""Types of command-line values."""

from __future__ import annotations

import argparse
from typing import Callable


def share(text: str) -> float:
    with_hint = argparse.ArgumentTypeError(f"'{text}' is not a share between 0 and 1, such as 0.9")
    try:
        number = float(text)
    except ValueError:
        raise with_hint from None
    if not 0 < number < 1:
        raise with_hint
    return number


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if text.isdecimal() else least - 1
        if number < least or (most is not None and number > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number {bounds}")
        return number

    return parse
