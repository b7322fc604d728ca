"""The language of `--lr-scale`, `PATTERN=FACTOR` joined by commas. Matching is `optim/layer_rates.py`'s."""

from __future__ import annotations

from typing import NamedTuple

from mxtrain.config.checks.bounds import FAR, NEAR
from mxtrain.core import plain_text
from mxtrain.core.errors import UsageError


class RateScale(NamedTuple):
    """A pattern of parameters' names, and what their learning rate is multiplied by."""

    pattern: str
    factor: float


def parse(text: str) -> list[RateScale]:
    """Parse --lr-scale; none where it is empty."""
    return [_parse_one(part.strip()) for part in text.split(",")] if text else []


def _parse_one(part: str) -> RateScale:
    pattern, _, number = part.rpartition("=")
    factor = plain_text.parse_number(number)
    if not pattern or factor is None:
        raise UsageError(f"--lr-scale {part}: give PATTERN=FACTOR joined by commas, as in 'features.*=0.1'")
    if factor == 0:
        raise UsageError(f"--lr-scale {part}: a rate of 0 trains nothing; give --freeze '{pattern}'")
    if not NEAR <= factor <= FAR:
        raise UsageError(f"--lr-scale {part}: give a factor from {NEAR:g} to {FAR:g}")
    return RateScale(pattern.strip(), factor)
