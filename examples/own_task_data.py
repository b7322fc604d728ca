"""Data for the task of own_task.py: `--train examples.own_task_data:train` calls a function for a Dataset.

Anything with a length and an index will do, whose items are pairs (x, y); so will .rec files, which `write` makes.
"""

import numpy as np

from mxtrain.data.records.record_writer import RecordWriter


def train():
    return pairs(2000, seed=0)


def val():
    return pairs(400, seed=1)


def pairs(count, seed):
    """Return pairs of two readings and a label, which is the more blurred the further the second one is from 0."""
    rng = np.random.default_rng(seed)
    readings = rng.uniform(-1, 1, (count, 2)).astype("float32")
    blur = 0.02 + 0.3 * abs(readings[:, 1])
    return list(zip(readings, np.sin(4 * readings[:, 0]) + blur * rng.normal(size=count)))


def write(path, samples):
    """Write such pairs as records, whose payloads are bytes."""
    with RecordWriter(path) as writer:
        for key, (readings, label) in enumerate(samples):
            writer.write(key, float(label), readings.tobytes())
