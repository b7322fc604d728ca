"""NVIDIA DALI on the CPU, with its MXNet reader and its fused decode-and-crop."""

from __future__ import annotations

import argparse
from pathlib import Path

from nvidia.dali import fn, pipeline_def, types

from benchmarks.loader import protocol
from benchmarks.loader.contenders.reading import BATCH_SIZE, MEAN, RATIO, SCALE, SIZE, STD


@pipeline_def
def pictures(rec: str, as_float: bool):
    payloads, labels = fn.readers.mxnet(
        path=[rec], index_path=[str(Path(rec).with_suffix(".idx"))], random_shuffle=True, name="reader"
    )
    images = fn.decoders.image_random_crop(
        payloads, device="cpu", random_area=list(SCALE), random_aspect_ratio=list(RATIO), num_attempts=10
    )
    # As the other contenders but PIL do; averaging where it shrinks costs DALI more.
    images = fn.resize(images, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=False)
    mirror = fn.random.coin_flip()
    if not as_float:
        return fn.flip(images, horizontal=mirror), labels
    normalised = fn.crop_mirror_normalize(
        images,
        mirror=mirror,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[255 * mean for mean in MEAN],
        std=[255 * std for std in STD],
    )
    return normalised, labels


def deliver(options: argparse.Namespace) -> protocol.Batches:
    pipeline = pictures(
        options.rec,
        options.batch == "float32",
        batch_size=BATCH_SIZE,
        num_threads=options.workers,
        device_id=None,
    )
    pipeline.build()
    while True:
        images, _ = pipeline.run()
        yield images


if __name__ == "__main__":
    protocol.run(deliver, to_numpy=lambda batch: batch.as_array())
