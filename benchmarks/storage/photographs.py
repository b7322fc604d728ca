"""Photographs of some 111 KB, in a store: as `.rec` files of ours, and one by one in a folder, for others to pack.

They are those of `benchmarks/loader/images.py` at a higher quality; a few hundred, again and again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
from pathlib import Path

from benchmarks.loader import images
from mxtrain.config.values.addresses import Address
from mxtrain.core.opencv import cv2
from mxtrain.data.packing.pictures.images import ImageOptions, prepare
from mxtrain.data.packing.pictures.restart_intervals import choose_way
from mxtrain.data.records import record_upload
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.storage import filesystems, stores

BUCKET = "s3://bucket"
PATIENCE = 60.0
QUALITY = 96
DISTINCT = 256
SHARD_BYTES = 128 << 20


def make(folder: Path) -> list[bytes]:
    """Return the JPEGs, made once."""
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(lambda number: _made(folder / f"{number:04}.jpg", number), range(DISTINCT)))


def _made(path: Path, number: int) -> bytes:
    if not path.exists():
        _, encoded = cv2.imencode(".jpg", images.picture(number), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        payload = prepare(encoded.tobytes(), ImageOptions(restarts=choose_way(True, False))).payload
        aside = path.with_suffix(".new")
        aside.write_bytes(payload)
        aside.replace(path)
    return path.read_bytes()


def upload(jpegs: list[bytes], num_samples: int, work: Path) -> dict[str, int]:
    """Put `.rec` files of so many samples into the bucket; return their sizes, by their paths."""
    work.mkdir(parents=True, exist_ok=True)
    total = sum(len(jpegs[number % DISTINCT]) for number in range(num_samples))
    num_shards, sizes = math.ceil(total / SHARD_BYTES), {}
    for shard in range(num_shards):
        path = work / f"train-{shard:05}-of-{num_shards:05}.rec"
        with RecordWriter(path) as writer:
            for number in range(shard, num_samples, num_shards):
                writer.write(number, float(number % images.NUM_CLASSES), jpegs[number % DISTINCT])
        record_upload.upload(path, Address(BUCKET))
        sizes[f"/{BUCKET.partition('//')[2]}/{path.name}"] = path.stat().st_size
        for each in work.glob(f"{path.stem}*"):
            each.unlink()
    return sizes


def main() -> None:
    """Make and upload, or copy a folder's files into the store."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--copy", nargs=2, metavar=("FOLDER", "ADDRESS"))
    parser.add_argument("words", nargs="*", metavar="FOLDER SAMPLES WORK")
    options = parser.parse_args()
    store = filesystems.filesystem("s3")
    if options.copy:
        folder, address = options.copy
        for path in Path(folder).iterdir():
            stores.write(Address(address) / path.name, str(path), PATIENCE)
        return
    folder, num_samples, work = options.words
    store.mkdir(BUCKET)
    print(json.dumps(upload(make(Path(folder)), int(num_samples), Path(work, "packs"))))


if __name__ == "__main__":
    main()
