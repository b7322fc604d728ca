"""The share of a table that an id's row lies in: by a hash, so shares are alike in size whatever ids there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.tables.first_values import mixed

HIGH = np.uint64(32)  # not the lowest bits, by which a share finds its rows


def share_of(ids: Any, num_shares: int) -> Any:
    """Return the share, below `num_shares`, of each int64 id."""
    return ((mixed(ids.view(np.uint64)) >> HIGH) % np.uint64(num_shares)).astype(np.int64)


def split(ids: Any, num_shares: int) -> list[Any]:
    """Return the positions of the ids of each share, in their order."""
    if num_shares == 1:
        return [np.arange(len(ids))]
    shares = share_of(ids, num_shares)
    return [np.flatnonzero(shares == share) for share in range(num_shares)]
