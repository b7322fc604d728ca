"""Who likes what, packed as a user would: by tastes of users and items, which no sum of a number for each knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.tasks.data.readings import pack

NUM_USERS, NUM_ITEMS = 40, 30
COLUMNS = ("--from", "ids", "--target", "like", "--categories", "user,item", "--lists", "tags")


def write(folder: Path, num_train: int, num_val: int) -> None:
    """Write whether a user likes an item, which is so where most of their tastes agree, with its price and its tags."""
    world = np.random.default_rng(0)
    tastes = world.choice((-1, 1), (NUM_USERS + NUM_ITEMS, 3))
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val), ("one", 3))):
        rng = np.random.default_rng(1 + seed)
        users, items = rng.integers(0, NUM_USERS, count), rng.integers(0, NUM_ITEMS, count)
        likes = (tastes[users] * tastes[NUM_USERS + items]).sum(axis=1) > 0
        rows = [
            f"{like:d},u{user},{(1 << 60) + item},{np.exp(rng.normal()):.4f},{'|'.join(f't{item % k}' for k in (2, 3))}"
            for like, user, item in zip(likes, users, items)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["like,user,item,price,tags", *rows]))
        if name != "one":
            pack(folder / f"{name}.csv", *COLUMNS)
