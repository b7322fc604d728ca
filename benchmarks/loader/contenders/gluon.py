"""Gluon's DataLoader with processes, and the transforms of GluonCV's ImageNet recipe."""

from __future__ import annotations

import argparse

import numpy as np

np.bool = bool  # MXNet 1.9.1 does not import without it
from mxnet.gluon.data import BatchSampler, DataLoader  # noqa: E402
from mxnet.gluon.data.vision import ImageRecordDataset, transforms  # noqa: E402

from benchmarks.loader import protocol  # noqa: E402
from benchmarks.loader.contenders.reading import (  # noqa: E402
    BATCH_SIZE,
    MEAN,
    RATIO,
    SCALE,
    SIZE,
    STD,
    EndlessOrder,
)


def deliver(options: argparse.Namespace) -> protocol.Batches:
    steps = [transforms.RandomResizedCrop(SIZE, SCALE, RATIO), transforms.RandomFlipLeftRight()]
    if options.batch == "float32":
        steps += [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    dataset = ImageRecordDataset(options.rec).transform_first(transforms.Compose(steps))
    batches = BatchSampler(EndlessOrder(len(dataset)), BATCH_SIZE, "discard")
    for images, _ in DataLoader(dataset, batch_sampler=batches, num_workers=options.workers):
        images.wait_to_read()
        yield images


if __name__ == "__main__":
    protocol.run(deliver, to_numpy=lambda batch: batch.asnumpy())
