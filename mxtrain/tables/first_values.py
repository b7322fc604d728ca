"""The values with which rows begin: a function of the seed, the table and the id, whoever asks first, and when."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from mxtrain.tables.options import TableOptions

STRIDE, GOLDEN = np.uint64(0xD1B54A32D192ED03), np.uint64(0x9E3779B97F4A7C15)
FRACTION_BITS = 24  # of a float32


def rows(options: TableOptions, ids: Any) -> Any:
    """Return the first values of the rows of int64 ids, float32."""
    with np.errstate(over="ignore"):
        begin = mixed(ids.view(np.uint64) * STRIDE + np.uint64(key_of(options)))
        numbers = mixed(begin[:, None] + np.arange(1, options.width + 1, dtype=np.uint64) * GOLDEN)
    fractions = (numbers >> np.uint64(64 - FRACTION_BITS)).astype(np.float32)
    step = np.float32(options.scale * 2.0 ** (1 - FRACTION_BITS))
    return fractions * step - np.float32(options.scale)


def key_of(options: TableOptions) -> int:
    """Return what tells the first values of one table of one run from those of others."""
    name = zlib.crc32(options.name.encode())
    return int(mixed(np.array([(options.seed << 32) % (1 << 64) + name], np.uint64))[0])


def mixed(numbers: Any) -> Any:
    """Return each uint64 mixed so that all its bits depend on all of its bits (splitmix64)."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
