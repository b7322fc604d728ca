import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from mxtrain.core.errors import DataError, RestartMe, UsageError
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.loading.loader import Loader, LoaderOptions
from tests.support.breadth import slow_cases
from tests.support.data.loader_transforms import Deadly, failing, slow, talking
from tests.support.data.loading import NUM_SAMPLES, TRANSFORM, by_hand, jpegs, opened, requests, write_records
from tests.support.process_tree import children


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return write_records(tmp_path_factory.mktemp("records") / "some.rec", jpegs(NUM_SAMPLES))


def in_processes(records, wanted=None, **options):
    return opened(records, wanted, kind="processes", **options)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before, descriptors = children(os.getpid()), len(os.listdir("/proc/self/fd"))
    yield
    assert set(children(os.getpid())) <= set(before)  # one of a test before may have ended meanwhile
    gc.collect()  # a mapping holds its descriptor until it goes
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1  # the records', opened by the fixture


def test_children_are_those_of_all_threads_also_of_ones_that_end_meanwhile():
    done = threading.Event()

    def come_and_go():
        while not done.is_set():
            short = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(20)]
            for thread in short:
                thread.start()
            for thread in short:
                thread.join()

    others = threading.Thread(target=come_and_go)
    with subprocess.Popen(["sleep", "60"]) as child:
        others.start()
        try:
            assert all(children(os.getpid()) == [child.pid] for _ in range(15))
        finally:
            done.set()
            others.join()
            child.kill()


def assert_as_by_hand(loader, records, wanted):
    for request, batch in zip(wanted, loader):
        data, label = by_hand(records, request)
        np.testing.assert_array_equal(batch.arrays["data"], data)
        np.testing.assert_array_equal(batch.arrays["label"], label)
        loader.release(batch)
    assert next(loader, None) is None


@pytest.mark.parametrize("workers", [3, *slow_cases(1)])
def test_batches_are_those_that_threads_make(records, workers):
    wanted = list(requests(num_epochs=3))
    with in_processes(records, iter(wanted), workers=workers, num_prefetch=3) as loader:
        assert_as_by_hand(loader, records, wanted)


def test_what_a_transform_prints_disturbs_nobody(records):
    wanted = list(requests())
    with in_processes(records, iter(wanted), transform=talking) as loader:
        assert_as_by_hand(loader, records, wanted)


@pytest.mark.parametrize("times", [2, *slow_cases(1)])
def test_the_work_of_a_killed_worker_is_done_again(records, tmp_path, times):
    wanted = list(requests())
    with in_processes(records, iter(wanted), transform=Deadly(tmp_path, times), workers=1) as loader:
        assert_as_by_hand(loader, records, wanted)
    assert len(list(tmp_path.iterdir())) == times


@pytest.mark.slow  # others here kill themselves
def test_workers_killed_from_outside_are_replaced_within_a_second(records):
    wanted = list(requests(num_epochs=4))
    with in_processes(records, iter(wanted), num_prefetch=2) as loader:
        done = [next(loader)]
        for _ in range(2):
            victims = children(os.getpid())
            assert len(victims) == 2
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            done += [next(loader) for _ in range(3)]
            # Noticing takes milliseconds; a new Python with NumPy and OpenCV the rest.
            assert time.monotonic() - killed < 10
        for request, batch in zip(wanted, done):
            np.testing.assert_array_equal(batch.arrays["data"], by_hand(records, request)[0])


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [
        (signal.SIGKILL, RestartMe, "want of memory"),
        (signal.SIGSEGV, DataError, r"died 3 times \(SIGSEGV\)"),
    ],
)
def test_a_piece_that_kills_three_workers_ends_the_run_and_is_named(
    records, tmp_path, number, error, message
):
    transform = Deadly(tmp_path, 1000, number)
    one_piece = next(requests(micro_batch=8))
    with pytest.raises(error, match=message) as raised, in_processes(
        records, [one_piece], transform=transform, workers=1
    ) as loader:
        next(loader)
    first = one_piece.samples[0]
    assert f"some.rec: record {first} (key {100 + first}) and 7 others" in str(raised.value)
    assert len(list(tmp_path.iterdir())) == 3


def test_an_undecodable_record_is_named(tmp_path):
    payloads = list(jpegs(NUM_SAMPLES))
    payloads[33] = payloads[33][:-150]
    bad = write_records(tmp_path / "bad.rec", payloads)
    with pytest.raises(DataError, match=r"bad.rec: record 33 \(key 133\): Premature end"), in_processes(
        bad
    ) as loader:
        for batch in loader:
            loader.release(batch)


def test_a_bug_in_a_transform_shows_the_workers_traceback_and_the_record(records):
    with in_processes(records, transform=failing) as loader, pytest.raises(RuntimeError) as error:
        next(loader)
    assert "shapes do not match" in str(error.value)
    assert "in failing" in str(error.value)
    assert "some.rec: record" in str(error.value)


def test_a_transform_that_cannot_be_sent_is_refused(records):
    with pytest.raises(UsageError, match="use --loader threads"), in_processes(
        records, transform=lambda payload, rng, out: None
    ) as loader:
        next(loader)


@pytest.mark.alone
def test_leaving_early_ends_all_processes_at_once(records):
    with in_processes(records, transform=slow) as loader:
        next(loader)
        assert len(children(os.getpid())) == 2
        started = time.monotonic()
    assert time.monotonic() - started < 1


def test_memory_that_is_not_there_is_refused_by_its_flag(records):
    huge = [next(requests())] * 2
    assembly = picture_assembly(records, TRANSFORM, 1 << 20, 5)
    with Loader(assembly, huge, LoaderOptions("processes", "1")) as loader, pytest.raises(
        UsageError, match="--prefetch-mb"
    ):
        next(loader)


PROGRAM = """
import sys
from tests.support.data.loader_transforms import slow
from tests.support.data.loader_transforms import Deadly, failing, slow, talking
from tests.support.data.loading import SIZE, requests
from mxtrain.data.loading.loader import Loader, LoaderOptions
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.records.record_file import open_records

assembly = picture_assembly(open_records({path!r}), slow, SIZE, 0)
with Loader(assembly, requests(1000), LoaderOptions("processes", "2")) as loader:
    for batch in loader:
        print("batch", flush=True)
"""


def shared_memory():
    """The names of what processes may have mapped; other tests make folders there."""
    return {entry.name for entry in os.scandir("/dev/shm") if not entry.is_dir()}


@pytest.mark.parametrize("number", [signal.SIGKILL, *slow_cases(signal.SIGINT, signal.SIGTERM)])
def test_no_process_and_no_memory_outlives_the_parent(records, number):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(path=str(records.path))],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    shared_before = shared_memory()
    try:
        assert parent.stdout.readline() == b"batch\n"
        workers = children(parent.pid)
        assert len(workers) == 2
        os.killpg(parent.pid, number)
        _, errors = parent.communicate(timeout=20)
        # A worker that the signal reached as well says nothing; only the parent's own traceback is there.
        assert errors.count(b"Traceback") == (number == signal.SIGINT)
        deadline = time.monotonic() + 2
        while any(is_running(pid) for pid in workers):
            assert time.monotonic() < deadline, "a worker outlived its parent by 2 s"
            time.sleep(0.02)
        while shared_memory() - shared_before and time.monotonic() < deadline:  # other tests' comes and goes
            time.sleep(0.02)
        assert shared_memory() <= shared_before
    finally:
        parent.kill()


@pytest.mark.system
def test_a_tiny_dev_shm_does_not_matter(records):
    program = PROGRAM.format(path=str(records.path)).replace("requests(1000)", "requests(1)")
    script = 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"batch\n" * 6, done.stderr


def is_running(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
