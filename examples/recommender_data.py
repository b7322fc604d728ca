"""Write who likes what in a shop: `python -m examples.recommender_data data/`. The same bytes each time."""

import sys
from pathlib import Path

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


if __name__ == "__main__":
    write(Path(sys.argv[1]))
