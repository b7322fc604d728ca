"""Records of small pictures, and loaders over them."""

from __future__ import annotations

import cv2
import numpy as np

from mxtrain.data.augment.transforms import train_transform
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.loading import order
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter

NUM_SAMPLES, SIZE = 70, 16
SHAPE = (3, SIZE, SIZE)
TRANSFORM = train_transform("resized_crop+flip", SIZE)


def write_records(path, payloads, labels=None):
    with RecordWriter(path) as writer:
        for place, payload in enumerate(payloads):
            writer.write(100 + place, float(place) if labels is None else labels[place], payload)
    return open_records(path)


def jpegs(num):
    random = np.random.default_rng(0)
    for _ in range(num):
        small = random.integers(0, 256, (6, 8, 3), np.uint8)
        yield cv2.imencode(".jpg", cv2.resize(small, (40, 30)))[1].tobytes()


def requests(num_epochs=1, micro_batch=12, seed=5):
    for epoch in range(num_epochs):
        samples = order.epoch_order(NUM_SAMPLES, seed, epoch)
        for position, part in enumerate(order.micro_batches(samples, micro_batch)):
            yield Request(step=epoch, position=position, epoch=epoch, samples=part)


def opened(records, wanted=None, transform=TRANSFORM, workers=2, kind="threads", skip_bad=0, **options):
    wanted = requests() if wanted is None else wanted
    assembly = picture_assembly(records, transform, SIZE, 5, skip_bad)
    return Loader(assembly, wanted, LoaderOptions(kind, str(workers), **options))


def by_hand(records, request):
    data, label = np.empty((len(request.samples), *SHAPE), np.float32), []
    for place, sample in enumerate(request.samples):
        record = records.read(int(sample))
        TRANSFORM(record.payload, order.sample_rng(5, request.epoch, int(sample)), data[place])
        label.append(record.label)
    return data, np.array(label, np.float32)


def with_bad_ones(folder, *places):
    payloads = list(jpegs(NUM_SAMPLES))
    for place in places:
        payloads[place] = payloads[place][:-150]
    return write_records(folder / "bad.rec", payloads)
