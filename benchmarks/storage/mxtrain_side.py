"""mxtrain's loader on files in a store, in a process of its own: from a step of an epoch to its end.

    python -m benchmarks.storage.mxtrain_side ADDRESS --began SECONDS --cache FOLDER --start SAMPLES --workers N

It decodes, crops to 224 pixels and normalises as a run does. Prints when the first batch was there, in seconds since
`--began`, and the samples and seconds from the opened files to the last batch.
"""

from __future__ import annotations

import time

from benchmarks.storage.turn import BATCH_SIZE, parse, print_turn


def main() -> None:
    options = parse()
    from mxtrain.data.loading import order, sample_requests
    from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
    from mxtrain.data.loading.sample_requests import CHUNK_MB
    from mxtrain.data.records.record_sets import open_set
    from mxtrain.data.storage.options import StorageOptions

    records = open_set(options.address, StorageOptions(options.cache))
    opened = time.time()
    samples = order.windowed_order(records.chunks(CHUNK_MB << 20), 64 // CHUNK_MB, 0, 0)[options.start :]
    requests = [
        Request(0, number, 0, each) for number, each in enumerate(order.micro_batches(samples, BATCH_SIZE))
    ]
    sample_requests.announce(records, iter(requests))  # as a run does before it loads the rest
    from mxtrain.data.augment.transforms import train_transform
    from mxtrain.data.image_fields import picture_assembly

    assembly = picture_assembly(records, train_transform("resized_crop+flip", 224), 224, seed=0)
    first = 0.0
    with Loader(assembly, requests, LoaderOptions(workers=str(options.workers))) as loader:
        for batch in loader:
            first = first or time.time()
            loader.release(batch)
            if options.first_only:
                break
        last = time.time()
    num_bytes = int(records.lengths[samples].sum())
    print_turn(options.began, opened, first, last, len(samples), num_bytes)


if __name__ == "__main__":
    main()
