"""mxtrain's loader, with batches that MXNet reads without a copy, as in `mxtrain/train/step.py`."""

from __future__ import annotations

import argparse
import itertools

from benchmarks.loader import protocol
from benchmarks.loader.contenders.reading import BATCH_SIZE, SIZE
from mxtrain.data.augment.transforms import train_transform
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.loading import order
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.sources.samples import open_samples
from mxtrain.runtime import mx


def run(kind: str) -> None:
    def deliver(options: argparse.Namespace) -> protocol.Batches:
        records = open_samples(options.rec)  # or the folder of its pictures
        requests = (
            Request(0, position, epoch, samples)
            for epoch in itertools.count()
            for position, samples in enumerate(
                order.micro_batches(order.epoch_order(len(records), 0, epoch), BATCH_SIZE)
            )
        )
        transform = train_transform("resized_crop+flip", SIZE)
        assembly = picture_assembly(records, transform, SIZE, seed=0, dtype=options.batch)
        loader_options = LoaderOptions(kind, str(options.workers))
        with Loader(assembly, requests, loader_options) as loader:
            for batch in loader:
                yield mx.nd.from_numpy(batch.arrays["data"][:], zero_copy=True)
                loader.release(batch)

    protocol.run(deliver, to_numpy=lambda batch: batch.asnumpy())
