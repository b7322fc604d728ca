"""No loader: libjpeg-turbo decodes every picture whole, one after the other, as a loader without cropping must."""

from __future__ import annotations

import argparse

import simplejpeg

from benchmarks.loader import protocol
from benchmarks.loader.contenders.reading import BATCH_SIZE, EndlessOrder, Payloads


def deliver(options: argparse.Namespace) -> protocol.Batches:
    payloads = Payloads(options.rec)
    batch = []
    for position in EndlessOrder(len(payloads)):
        batch.append(simplejpeg.decode_jpeg(payloads[position], "RGB"))
        if len(batch) == BATCH_SIZE:
            yield batch
            batch = []


if __name__ == "__main__":
    protocol.run(deliver, to_numpy=lambda batch: batch[0])
