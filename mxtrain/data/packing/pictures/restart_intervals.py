"""Restart markers in JPEGs, with which a loader can decode a crop without decoding what is beside it.

Owns their distance, and inserting them without decoding: by the C extension, which compares the coefficients before and
after, or by libjpeg-turbo's `jpegtran`; both write the same bytes. Does not crop such JPEGs
(`mxtrain.data.decode.restart`), which needs the markers at the same columns in every row.
"""

from __future__ import annotations

import logging
import shutil
import subprocess

from mxtrain import native
from mxtrain.core.errors import UsageError

logger = logging.getLogger(__name__)

NATIVE, JPEGTRAN, NONE = "native", "jpegtran", "none"  # the ways, as journals record them
_NEEDS = "mxtrain installed where there is a C compiler, or the program jpegtran (`apt install libjpeg-turbo-progs`)"
_TIMEOUT_SECONDS = 60
# A marker costs about 3 bytes: at 4 units (64 pixels) apart 1% of the file, at 2 2%, at 1 4%.
_BEST, _MOST = 4, 8


class NotInserted(Exception):
    """The reason why restart markers cannot be inserted into a JPEG, in words that fit many."""


def interval(num_unit_columns: int) -> int:
    """Return the units from marker to marker: the divisor of a row nearest 4, or the row where 2 to 8 has none."""
    fitting = [n for n in range(2, _MOST + 1) if num_unit_columns % n == 0]
    return min(fitting, key=lambda n: abs(n - _BEST), default=num_unit_columns)


def choose_way(is_wanted: bool | None, is_needed: bool) -> str:
    """Return how this machine inserts them: NATIVE, JPEGTRAN or NONE.

    Where it cannot, UsageError if they are wanted; if they would only be the default, a line says so where they are
    needed.
    """
    if is_wanted is False:
        return NONE
    if native.rewrite_jpeg:
        return NATIVE
    if shutil.which("jpegtran"):
        return JPEGTRAN
    if is_wanted:
        raise UsageError(
            f"--restart-intervals needs {_NEEDS}, or re-encode with --quality, which needs neither"
        )
    if is_needed:
        logger.warning("JPEGs go in without restart intervals, and load more slowly: these need %s", _NEEDS)
    return NONE


def insert(data: bytes, num_unit_columns: int, way: str) -> bytes:
    """Return a baseline JPEG of the same coefficients, with restart markers and Huffman tables of its own.

    NotInserted says for which JPEGs that cannot be: unusual and damaged ones.
    """
    units = interval(num_unit_columns)
    if way == JPEGTRAN:
        return _by_jpegtran(data, units)
    assert native.rewrite_jpeg, "chosen where it is not built"
    written: bytes | str = native.rewrite_jpeg(data, units)
    if isinstance(written, str):
        raise NotInserted(written)
    return written


def _by_jpegtran(data: bytes, units: int) -> bytes:
    command = ["jpegtran", "-copy", "all", "-optimize", "-restart", f"{units}B"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInserted(f"jpegtran did not finish in {_TIMEOUT_SECONDS} s") from None
    if done.returncode or not done.stdout:
        raise NotInserted("refused by jpegtran")
    return done.stdout
