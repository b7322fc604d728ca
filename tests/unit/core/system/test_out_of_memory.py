"""A shortage of memory is named, and ends a process in bounded time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.core.errors import RESTART_ME, OutOfMemory, as_stop, as_user_code
from mxtrain.core.system import out_of_memory

DEADLINE_SECONDS = 60
LIMITED = """
import re, resource, sys, threading
from pathlib import Path
import numpy as np
from mxtrain.core.errors import one_line
from mxtrain.data.decode import decoding as images

def leave(spare):
    size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (size + spare, size + spare))

def start_thread():
    leave(threading.stack_size() + (8 << 20) + 4096)  # room for its stack, and none for its first lines
    for _ in range(3):
        threading.Thread(target=threading.Event().wait, daemon=True).start()

def decode():
    payload = Path(sys.argv[1]).read_bytes()
    leave(1 << 20)
    images.decode(payload)

raise SystemExit(one_line("it", COMMAND))
"""


def ended(command: str, *words: object) -> subprocess.CompletedProcess[str]:
    code = LIMITED.replace("COMMAND", command)
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        env={**os.environ, "MXTRAIN_NODE": "worker-1"},
    )


def test_a_thread_without_room_to_begin_does_not_leave_the_one_that_started_it_waiting() -> None:
    done = ended("start_thread")
    assert done.returncode == RESTART_ME, done.stderr
    assert done.stderr.splitlines()[-1].startswith("it: worker-1: memory has run out"), done.stderr


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_picture_that_memory_does_not_hold_is_not_taken_for_a_damaged_one(
    suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"large{suffix}"
    cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 255, (1500, 1500, 3), np.uint8))
    done = ended("decode", path)
    assert done.returncode == RESTART_ME, done.stderr
    assert "memory has run out" in done.stderr.splitlines()[-1]


def test_words_for_a_shortage_are_told_from_others() -> None:
    short = (
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError("libmxnet.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("File cpu_device_storage.h, line 74: Failed to allocate CPU Memory"),
    )
    assert all(isinstance(as_stop(error), OutOfMemory) for error in short)
    others = (
        OSError(errno.EAGAIN, "Resource temporarily unavailable"),
        RuntimeError("the shapes differ"),
        ValueError("Unable to allocate a class to the label"),
    )
    assert [as_stop(error) for error in others] == [None] * len(others)


def test_what_caused_an_exception_is_named() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            np.empty(1 << 50)
        except MemoryError as error:
            raise RuntimeError("the transform failed at a.rec: record 3") from error
    assert "Unable to allocate" in str(as_stop(caught.value))


def test_a_shortage_in_the_users_own_code_keeps_its_flag_and_traceback() -> None:
    def take() -> None:
        np.empty(1 << 50)

    with pytest.raises(MemoryError) as caught:
        as_user_code("--loss own:take", take)()
    assert as_stop(caught.value) is None


def test_limits_are_those_of_the_process_and_in_the_words_that_set_them() -> None:
    limited = "import resource as r, time; r.setrlimit(r.RLIMIT_AS, (2 * 10**9,) * 2); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", limited]) as process:
        try:
            end = time.monotonic() + DEADLINE_SECONDS
            while not out_of_memory.limits(process.pid) and time.monotonic() < end:
                time.sleep(0.01)
            assert out_of_memory.in_words(out_of_memory.limits(process.pid)) == "2.0 GB (ulimit -v)"
        finally:
            process.kill()
    assert out_of_memory.limits(process.pid) == {}
