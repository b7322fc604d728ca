"""Data sets that a user might give to --train: bright pictures against dark ones, learnt in a few steps."""

import numpy as np
from mxnet import gluon


def dataset(num_samples=64):
    rng = np.random.default_rng(0)
    labels = np.arange(num_samples) % 2
    pictures = rng.normal(np.where(labels, 200, 40)[:, None, None, None], 20, (num_samples, 24, 24, 3))
    return gluon.data.ArrayDataset(np.clip(pictures, 0, 255).astype(np.uint8), labels.astype(np.float32))


def held_out():
    return dataset(32)


def batches():
    def normalised(picture, label):
        return (picture.astype(np.float32).transpose(2, 0, 1) - 120) / 80, label

    return gluon.data.DataLoader(dataset().transform(normalised), batch_size=16, last_batch="discard")


class Arrays:
    """As a DataLoader: batches of the user's own memory."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.batches = [
            (rng.random((16, 3, 16, 16), np.float32), np.arange(16, dtype=np.float32) % 2) for _ in range(4)
        ]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


def arrays():
    return Arrays()


def no_batches():
    return (batch for batch in batches())


def too_few():
    return gluon.data.DataLoader(dataset(8), batch_size=16, last_batch="discard")


def empty():
    return dataset(0)


def nothing():
    return 7
