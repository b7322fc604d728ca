"""Restart markers in JPEGs, so that a loader can decode a crop without decoding what is beside it.

Owns how far apart they are, and putting them into a JPEG without decoding it, which is left to libjpeg-turbo's
`jpegtran`. Cutting such a JPEG is `mxtrain.data.restart`'s part, which wants them at the same columns in every row.
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
    """How many units from marker to marker: the divisor of a row nearest 4, or the whole row where 2 to 8 have none."""
    fitting = [n for n in range(2, _MOST + 1) if num_unit_columns % n == 0]
    return min(fitting, key=lambda n: abs(n - _BEST), default=num_unit_columns)


def require_jpegtran() -> None:
    if not shutil.which("jpegtran"):
        raise UsageError(
            "--restart-intervals needs the program jpegtran: install it (`apt install libjpeg-turbo-progs`), "
            "or re-encode with --quality, which needs no program"
        )


def insert(data: bytes, num_unit_columns: int) -> bytes:
    """The same coefficients in a baseline JPEG with restart markers and Huffman tables made for it."""
    command = ["jpegtran", "-copy", "all", "-optimize", "-restart", f"{interval(num_unit_columns)}B"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise BadPicture(f"jpegtran did not finish it in {_TIMEOUT_SECONDS} s") from None
    if done.returncode or not done.stdout:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise BadPicture(f"jpegtran refused it ({reason[-1] if reason else f'exit code {done.returncode}'})")
    return done.stdout
