"""The values with which rows begin: a function of the seed, the table and the id, whoever asks first, and when."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from mxtrain.tables.hashing import GOLDEN, mixed
from mxtrain.tables.options import TableOptions

STRIDE = np.uint64(0xD1B54A32D192ED03)
FRACTION_BITS = 24  # of a float32


def rows(options: TableOptions, ids: Any) -> Any:
    """Return the first values of the rows of int64 ids, float32."""
    with np.errstate(over="ignore"):
        begin = mixed(ids.view(np.uint64) * STRIDE + np.uint64(key_of(options)))
        numbers = mixed(begin[:, None] + np.arange(1, options.width + 1, dtype=np.uint64) * GOLDEN)
    fractions = (numbers >> np.uint64(64 - FRACTION_BITS)).astype(np.float32)
    return fractions * np.float32(step_of(options)) - np.float32(options.scale)


def step_of(options: TableOptions) -> float:
    """Return the distance between neighbours among first values, a float32."""
    return float(np.float32(options.scale * 2.0 ** (1 - FRACTION_BITS)))


def key_of(options: TableOptions) -> int:
    """Return what tells the first values of one table of one run from those of others."""
    name = zlib.crc32(options.name.encode())
    return int(mixed(np.array([(options.seed << 32) % (1 << 64) + name], np.uint64))[0])
