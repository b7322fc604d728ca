"""The share of a table that an id's row lies in: by a hash, so shares are alike in size whatever ids there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.tables.hashing import hashes_of

HIGH = np.uint64(32)


def share_of(ids: Any, num_shares: int) -> Any:
    """Return the share, below `num_shares`, of each int64 id."""
    return ((hashes_of(ids) >> HIGH) % np.uint64(num_shares)).astype(np.int64)


def split(ids: Any, num_shares: int) -> list[Any]:
    """Return the positions of the ids of each share, in their order."""
    if num_shares == 1:
        return [np.arange(len(ids))]
    shares = share_of(ids, num_shares)
    return [np.flatnonzero(shares == share) for share in range(num_shares)]
