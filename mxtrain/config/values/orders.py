"""The language of --order: permutation, windows, or windows:MB."""

from __future__ import annotations

from mxtrain.core.errors import UsageError

PERMUTATION, WINDOWS = "permutation", "windows"
WINDOW_MB = 64
MOST_MB = 1 << 20


def window_mb(text: str) -> int:
    """Return how many megabytes of chunks make a window; 0 for a permutation of all samples."""
    if text == PERMUTATION:
        return 0
    name, separator, size = text.partition(":")
    if name != WINDOWS or (
        separator and not (size.isdecimal() and len(size) < 9 and 8 <= int(size) <= MOST_MB)
    ):
        raise UsageError(
            f"--order {text}: unknown; give {PERMUTATION}, {WINDOWS} or {WINDOWS}:MB, as in {WINDOWS}:256, from 8 on"
        )
    return int(size) if separator else WINDOW_MB
