"""Restart markers in JPEGs, with which a loader can decode a crop without decoding what is beside it.

Owns their distance, and inserting them without decoding, by libjpeg-turbo's `jpegtran`. Does not crop such JPEGs
(`mxtrain.data.restart`), which needs the markers at the same columns in every row.
"""

from __future__ import annotations

import shutil
import subprocess

from mxtrain.core.errors import UsageError
from mxtrain.data.jpeg import BadPicture

_TIMEOUT_SECONDS = 60
# A marker costs about 3 bytes: at 4 units (64 pixels) apart 1% of the file, at 2 2%, at 1 4%.
_BEST, _MOST = 4, 8


def interval(num_unit_columns: int) -> int:
    """Return the units from marker to marker: the divisor of a row nearest 4, or the row where 2 to 8 has none."""
    fitting = [n for n in range(2, _MOST + 1) if num_unit_columns % n == 0]
    return min(fitting, key=lambda n: abs(n - _BEST), default=num_unit_columns)


def require_jpegtran() -> None:
    """Raise UsageError where jpegtran is not installed."""
    if not shutil.which("jpegtran"):
        raise UsageError(
            "--restart-intervals needs the program jpegtran: install it (`apt install libjpeg-turbo-progs`), "
            "or re-encode with --quality, which needs no program"
        )


def insert(data: bytes, num_unit_columns: int) -> bytes:
    """Return a baseline JPEG of the same coefficients, with restart markers and Huffman tables of its own."""
    command = ["jpegtran", "-copy", "all", "-optimize", "-restart", f"{interval(num_unit_columns)}B"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise BadPicture(f"jpegtran did not finish it in {_TIMEOUT_SECONDS} s") from None
    if done.returncode or not done.stdout:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise BadPicture(f"jpegtran refused it ({reason[-1] if reason else f'exit code {done.returncode}'})")
    return done.stdout
