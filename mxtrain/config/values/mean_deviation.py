"""The language of `--mean` and `--deviation`: of ImageNet, of the training set, or numbers for pixels from 0 to 1."""

from __future__ import annotations

from typing import Tuple

from mxtrain.config import Data
from mxtrain.core import plain_text
from mxtrain.core.errors import UsageError

IMAGENET, AUTO = "imagenet", "auto"
SMALLEST, LARGEST = 1e-4, 1e3

Numbers = Tuple[float, ...]  # one for each channel


def parse_numbers(flag: str, text: str, channels: int) -> Numbers | None:
    """Return the numbers that a flag gives, one for all channels or one for each; None for `imagenet` and `auto`."""
    if text in (IMAGENET, AUTO):
        return None
    numbers = [plain_text.parse_number(part) for part in text.split(",")]
    if None in numbers:
        raise UsageError(
            f"{flag} {text}: give {IMAGENET}, {AUTO}, or numbers joined by commas, as in 0.5,0.5,0.5"
        )
    if len(numbers) not in (1, channels):
        raise UsageError(
            f"{flag} {text}: {len(numbers)} numbers for --channels {channels}; give one for each"
        )
    least = SMALLEST if flag == "--deviation" else -LARGEST
    for number in numbers:
        if number is None or not least <= number <= LARGEST:
            raise UsageError(
                f"{flag} {text}: pixels count from 0 to 1; give numbers from {least:g} to {LARGEST:g}"
            )
    checked = tuple(number for number in numbers if number is not None)
    return checked if len(checked) == channels else checked * channels


def check(data: Data) -> None:
    """Refuse numbers that do not go with the channels."""
    parse_numbers("--mean", data.mean, data.channels)
    parse_numbers("--deviation", data.deviation, data.channels)
