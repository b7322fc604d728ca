"""MXNet's ImageRecordIter, which decodes with OpenCV in threads of C++; its uint8 batches are planes too."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

np.bool = bool  # MXNet 1.9.1 does not import without it
import mxnet as mx  # noqa: E402

from benchmarks.loader import protocol  # noqa: E402
from benchmarks.loader.contenders.reading import BATCH_SIZE, MEAN, RATIO, SCALE, SIZE, STD  # noqa: E402


def deliver(options: argparse.Namespace) -> protocol.Batches:
    common = {
        "path_imgrec": options.rec,
        "path_imgidx": str(Path(options.rec).with_suffix(".idx")),
        "data_shape": (3, SIZE, SIZE),
        "batch_size": BATCH_SIZE,
        "shuffle": True,
        "random_resized_crop": True,
        "min_random_area": SCALE[0],
        "max_random_area": SCALE[1],
        "min_aspect_ratio": RATIO[0],
        "max_aspect_ratio": RATIO[1],
        "rand_mirror": True,
        "preprocess_threads": options.workers,
        "verbose": False,
    }
    if options.batch == "uint8":
        iterator = mx.io.ImageRecordUInt8Iter(**common)
    else:
        normalise = {
            f"{what}_{channel}": 255 * value
            for what, values in (("mean", MEAN), ("std", STD))
            for channel, value in zip("rgb", values)
        }
        iterator = mx.io.ImageRecordIter(**common, **normalise)
    while True:
        for batch in iterator:
            batch.data[0].wait_to_read()
            yield batch.data[0]
        iterator.reset()


if __name__ == "__main__":
    protocol.run(deliver, to_numpy=lambda batch: batch.asnumpy())
