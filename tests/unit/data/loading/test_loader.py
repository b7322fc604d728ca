import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import fields, image_fields
from mxtrain.data.loading import order
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader, LoaderOptions
from mxtrain.data.records.record_file import open_records
from tests.support.data.loading import (
    NUM_SAMPLES,
    SHAPE,
    SIZE,
    TRANSFORM,
    by_hand,
    jpegs,
    opened,
    requests,
    with_bad_ones,
    write_records,
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return write_records(tmp_path_factory.mktemp("records") / "some.rec", jpegs(NUM_SAMPLES))


def loader_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("loader")]


@pytest.mark.parametrize("workers", [1, 2, 7])
@pytest.mark.parametrize("prefetch", [{}, {"num_prefetch": 1}, {"prefetch_bytes": 0}])
def test_batches_come_in_order_and_are_the_same_for_any_number_of_workers(records, workers, prefetch):
    wanted = list(requests(num_epochs=2))
    with opened(records, iter(wanted), workers=workers, **prefetch) as loader:
        for request, batch in itertools.zip_longest(wanted, loader):
            assert batch.request is request
            data, label = by_hand(records, request)
            np.testing.assert_array_equal(batch.arrays["data"], data)
            np.testing.assert_array_equal(batch.arrays["label"], label)
            assert (batch.arrays["data"].dtype, batch.arrays["label"].dtype) == (np.float32, np.float32)
            loader.release(batch)


def test_a_batch_is_not_touched_before_it_is_released(records):
    with opened(records, requests(num_epochs=3)) as loader:
        kept = list(itertools.islice(loader, 4))
        copies = [batch.arrays["data"].copy() for batch in kept]
        for batch in loader:
            loader.release(batch)
        for batch, copy in zip(kept, copies):
            np.testing.assert_array_equal(batch.arrays["data"], copy)


def test_released_buffers_are_used_again_and_only_once(records):
    addresses = set()
    with opened(records, requests(num_epochs=10), num_prefetch=2) as loader:
        for batch in loader:
            addresses.add(batch.arrays["data"].ctypes.data)
            loader.release(batch)
            loader.release(batch)
            together = [other.rows.arrays["data"].ctypes.data for other in loader._in_flight]
            assert len(set(together)) == len(together)
    assert len(addresses) <= 4


def test_arrays_can_be_handed_over_without_a_copy(records):
    with opened(records) as loader:
        for batch in loader:
            assert batch.arrays["data"].flags.c_contiguous
            handed_over = batch.arrays["data"][:]
            handed_over.flags.writeable = False  # as mx.nd.from_numpy does
            loader.release(batch)


def test_requests_are_pulled_only_as_far_as_the_prefetch_reaches(records):
    pulled = []

    def without_end():
        for epoch in itertools.count():
            for request in requests(micro_batch=10, seed=epoch):
                pulled.append(request)
                yield request

    batch_bytes = fields.num_bytes(image_fields.fields(SIZE), 10)
    for options, ahead in (
        ({"num_prefetch": 3}, 3),
        ({"prefetch_bytes": 5 * batch_bytes}, 5),
        ({"prefetch_bytes": batch_bytes - 1}, 1),
    ):
        pulled.clear()
        with opened(records, without_end(), **options) as loader:
            for taken in range(1, 20):
                loader.release(next(loader))
                assert len(pulled) == taken + ahead


def test_no_requests_no_batches(records):
    with opened(records, []) as loader:
        assert list(loader) == []


def test_the_disk_is_asked_ahead_for_exactly_the_records(records, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, start, length, how: asked.append((start, length)))
    wanted = list(requests())
    with opened(records, wanted, num_prefetch=2) as loader:
        next(loader)
    content, samples = (
        records.path.read_bytes(),
        [s for request in wanted[:3] for s in request.samples.tolist()],
    )
    assert len(asked) == len(samples)
    for sample, (start, length) in zip(samples, asked):
        payload = bytes(records.read(sample).payload)
        assert content[start + 32 : start + length] == payload + bytes(-len(payload) % 4)


# What goes wrong


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("place", [0, 33, NUM_SAMPLES - 1])
def test_an_undecodable_record_is_named(tmp_path, place, workers):
    payloads = list(jpegs(NUM_SAMPLES))
    payloads[place] = payloads[place][:-150]
    bad = write_records(tmp_path / "bad.rec", payloads)
    with pytest.raises(DataError) as error, opened(bad, workers=workers) as loader:
        for batch in loader:
            assert place not in batch.request.samples
            loader.release(batch)
    assert f"bad.rec: record {place} (key {100 + place}): Premature end of JPEG file; " in str(error.value)
    assert "\n" not in str(error.value)
    assert not loader_threads()


def test_a_record_with_a_flipped_bit_is_named(tmp_path):
    path = tmp_path / "flipped.rec"
    write_records(path, jpegs(NUM_SAMPLES))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"flipped.rec: record \d+ .*checksum"), opened(
        open_records(path)
    ) as loader:
        list(loader)


def test_records_with_several_labels_are_refused(tmp_path):
    several = write_records(tmp_path / "two.rec", jpegs(NUM_SAMPLES), labels=[[1.0, 2.0]] * NUM_SAMPLES)
    with pytest.raises(DataError, match="it has 2 labels; pack it with one"), opened(several) as loader:
        list(loader)


def test_a_bug_in_a_transform_keeps_its_traceback_and_names_the_record(records):
    def transform(payload, rng, out):
        raise ValueError("shapes do not match")

    named = pytest.raises(RuntimeError, match=r"some.rec: record \d+ \(key 1\d\d\)")
    with opened(records, transform=transform) as loader, named as error:
        next(loader)
    assert str(error.value.__cause__) == "shapes do not match"


def test_what_the_user_can_put_right_comes_through_as_it_is(records):
    def transform(payload, rng, out):
        raise UsageError("--augment: no")

    with pytest.raises(UsageError, match="--augment: no"), opened(records, transform=transform) as loader:
        list(loader)


@pytest.mark.alone
def test_leaving_early_ends_all_threads_within_a_second(records):
    def slow(payload, rng, out):
        time.sleep(0.05)

    with pytest.raises(ZeroDivisionError), opened(records, transform=slow, workers=4) as loader:
        next(loader)
        assert loader_threads()
        started = time.monotonic()
        raise ZeroDivisionError
    assert time.monotonic() - started < 1
    assert not loader_threads()
    loader.close()


def test_ctrl_c_ends_a_process_that_waits_for_a_batch(records):
    program = f"""
import sys
import time
import numpy as np
from mxtrain.data.loading.loader import Loader, Request, LoaderOptions
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.records.record_file import open_records

def slow(payload, rng, out):
    sys.stdout.write("decoding\\n")
    sys.stdout.flush()
    time.sleep(0.3)

wanted = [Request(0, 0, 0, np.arange({NUM_SAMPLES}))] * 1000
assembly = picture_assembly(open_records({str(records.path)!r}), slow, {SIZE}, 0)
with Loader(assembly, wanted, LoaderOptions('threads', '2')) as loader:
    next(loader)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"decoding\n"
        time.sleep(0.1)  # for the main thread to hand out the batch and wait for it
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - started < 1.5
        assert b"KeyboardInterrupt" in errors
        assert process.returncode != 0
    finally:
        process.kill()


# --skip-bad


@pytest.mark.parametrize(("kind", "workers"), [("threads", 1), ("threads", 3), ("processes", 2)])
def test_bad_records_are_replaced_by_the_next_good_ones_and_counted_once(tmp_path, kind, workers):
    bad = with_bad_ones(tmp_path, 5, 6, NUM_SAMPLES - 1)
    replaced_by = {5: 7, 6: 7, NUM_SAMPLES - 1: 0}
    with opened(bad, requests(num_epochs=2), kind=kind, workers=workers, skip_bad=3) as loader:
        for batch in loader:
            samples = batch.request.samples.tolist()
            used = [replaced_by.get(sample, sample) for sample in samples]
            assert batch.arrays["label"].tolist() == used
            for row, (sample, position) in enumerate(zip(samples, used)):
                expected = np.empty(SHAPE, np.float32)
                rng = order.sample_rng(5, batch.request.epoch, sample)
                TRANSFORM(bad.read(position).payload, rng, expected)
                np.testing.assert_array_equal(batch.arrays["data"][row], expected)
            loader.release(batch)
        assert sorted(loader.skipped) == [5, 6, NUM_SAMPLES - 1]
        assert "bad.rec: record 5 (key 105): Premature end" in loader.skipped[5]


@pytest.mark.parametrize("workers", [1, 3])
def test_more_bad_records_than_may_be_skipped_end_the_run_at_the_same_batch(tmp_path, workers):
    bad, seen = with_bad_ones(tmp_path, 3, 20, 40), set()
    with pytest.raises(DataError, match="3 bad records, more than --skip-bad 2; the last one: "), opened(
        bad, workers=workers, skip_bad=2
    ) as loader:
        for batch in loader:
            seen.update(batch.request.samples.tolist())
    map_in_order = order.epoch_order(NUM_SAMPLES, 5, 0).tolist()
    last = max(map_in_order.index(place) for place in (3, 20, 40))
    assert len(seen) == last // 12 * 12


# --verify


@pytest.mark.parametrize(("verify", "num_good_epochs"), [("always", 0), ("first-epoch", 0), ("never", 2)])
def test_checksums_are_looked_at_as_often_as_asked(tmp_path, verify, num_good_epochs):
    path = tmp_path / "flipped.rec"
    write_records(path, jpegs(NUM_SAMPLES))
    content = bytearray(path.read_bytes())
    content[content.index(b"\xff\xd8") + 12] ^= (
        1  # the JFIF version of the first picture, which decoders ignore
    )
    path.write_bytes(content)
    batches = 0
    with opened(open_records(path), requests(num_epochs=2), verify=verify) as loader:
        try:
            batches = len(list(loader))
        except DataError as error:
            assert "checksum differs" in str(error)
    assert batches == num_good_epochs * 6


def test_the_first_epoch_is_the_first_that_is_read(tmp_path):
    read = []

    class Watched:
        def __init__(self, records):
            self.records = records

        def __getattr__(self, name):
            return getattr(self.records, name)

        def __len__(self):
            return len(self.records)

        def read(self, position, verify):
            read.append(verify)
            return self.records.read(position, verify)

    records = Watched(write_records(tmp_path / "some.rec", jpegs(NUM_SAMPLES)))
    later = [dataclasses.replace(request, epoch=request.epoch + 7) for request in requests(num_epochs=2)]
    with opened(records, later, workers=1, verify="first-epoch") as loader:
        assert len(list(loader)) == 12
    assert read == [True] * NUM_SAMPLES + [False] * NUM_SAMPLES


def reader_of_a_notebook(record, rng, row):
    """Stands for what a user has written into a cell."""


def test_code_of_main_is_not_sent_to_processes(monkeypatch):
    monkeypatch.setattr(reader_of_a_notebook, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "reader_of_a_notebook", reader_of_a_notebook, raising=False)
    assembly = SampleAssembly([], reader_of_a_notebook, (), seed=0)
    monkeypatch.setattr(LoaderOptions, "uses_processes", lambda self: True)  # as auto on many cores
    with Loader(assembly, [], LoaderOptions("auto", workers="1")) as loader:
        assert loader._shared is None
    with pytest.raises(
        UsageError, match="is in __main__, this program or notebook; put it into a module of its own"
    ):
        Loader(assembly, [], LoaderOptions("processes", workers="1"))
