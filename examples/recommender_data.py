"""Write who likes what in a shop, and who clicks what: `python -m examples.recommender_data data/`.

The same bytes each time: train.rec and val.rec of likings, clicks_train.csv and clicks_val.csv of clicks.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mxtrain.data.records.record_writer import RecordWriter


def write(folder, num_train=60_000, num_val=6_000):
    """Write who likes what: users and items have hidden tastes, and like each other where most of these agree.

    So everybody likes half of everything: no sum of a number for the user and one for the item can tell.
    """
    rng = np.random.default_rng(0)
    numbers = np.unique(rng.integers(0, 1 << 62, 3000))  # as a shop gives them
    tastes = rng.choice((-1, 1), (len(numbers), 3)).astype(np.int8)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", num_train), ("val", num_val)):
        pairs = np.stack([rng.integers(0, 2000, count), rng.integers(2000, len(numbers), count)], axis=1)
        likes = (tastes[pairs[:, 0]] * tastes[pairs[:, 1]]).sum(axis=1) > 0
        with RecordWriter(folder / f"{name}.rec") as writer:
            for key, (pair, label) in enumerate(zip(numbers[pairs].astype("<i8"), likes)):
                writer.write(key, float(label), pair.tobytes())


DEVICES = ("phone", "tablet", "desk")
MOST_TAGS = 4


class Clicks(NamedTuple):
    """Items as they were shown to users, whether they were clicked, and the truth behind it."""

    user: np.ndarray  # int64 numbers, as a shop gives them; few users come often
    item: np.ndarray  # as users
    device: np.ndarray  # of DEVICES
    tags: np.ndarray  # of the item, (n, MOST_TAGS), -1 behind the last; an item may have none
    price: np.ndarray  # float64
    clicked: np.ndarray  # 0 or 1, drawn with the odds below
    log_odds: np.ndarray  # float64, the sum of both orders
    first_order: np.ndarray  # the part of it that is a sum of one number for each column


def clicks(count, seed, num_users=2000, num_items=1000, num_tags=30):
    """Return what was shown, drawn by the seed; users, items, tags and what they are worth are the same for each."""
    world, rng = np.random.default_rng(1), np.random.default_rng([2, seed])
    ids = world.choice(1 << 62, num_users + num_items)
    worth = world.normal(0, 0.4, num_users + num_items)
    tastes = world.normal(0, 0.7, (num_users + num_items, 3))
    of_devices, of_tags = np.array([0.3, 0.0, -0.4]), world.normal(0, 0.6, (num_tags + 1, 2))
    of_tags[-1] = 0  # where there is none
    item_tags = world.integers(0, num_tags, (num_items, MOST_TAGS))
    item_tags[np.arange(MOST_TAGS) >= world.integers(0, MOST_TAGS + 1, (num_items, 1))] = -1

    user, item = (np.floor(size * rng.random(count) ** 2).astype(int) for size in (num_users, num_items))
    device, price, tags = rng.integers(0, 3, count), np.exp(rng.normal(3, 1, count)), item_tags[item]
    pulls = of_tags[tags].sum(axis=1) / np.maximum((tags >= 0).sum(axis=1), 1)[:, None]  # means over a list
    first = worth[user] + worth[num_users + item] + of_devices[device] + pulls[:, 0]
    first -= 0.5 * (np.log(price) - 3) + 1.5
    pairs = (tastes[user] * tastes[num_users + item]).sum(axis=1) + 2 * tastes[user, 0] * pulls[:, 1]
    log_odds = first + pairs
    clicked = (rng.random(count) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)
    names = np.array(DEVICES)[device]
    return Clicks(ids[user], ids[num_users + item], names, tags, price, clicked, log_odds, first)


def write_clicks(folder, num_train=60_000, num_val=6_000):
    """Write a line for each of what was shown: click, user, item, device, tags as t3|t17, price."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        shown = clicks(count, seed)
        lists = ["|".join(f"t{tag}" for tag in tags if tag >= 0) for tags in shown.tags.tolist()]
        prices = [f"{each:.2f}" for each in shown.price]
        columns = (shown.clicked, shown.user, shown.item, shown.device, lists, prices)
        lines = ["click,user,item,device,tags,price", *(",".join(map(str, row)) for row in zip(*columns))]
        (folder / f"clicks_{name}.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    write_clicks(Path(sys.argv[1]))
