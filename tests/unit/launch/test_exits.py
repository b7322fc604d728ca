"""The meaning of exits for a job: the root cause, and its words."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mxtrain.core.errors import DATA
from mxtrain.launch.exits import ProcessExit, exit_message, root_cause, summary
from mxtrain.launch.plan import ProcessSpec


def exited(name: str, code: int, was_terminated: bool = False, last: str = "why") -> ProcessExit:
    return ProcessExit(ProcessSpec(name, (), {}, Path("log")), code, 1.0, was_terminated, False, (last,))


def test_the_root_cause_is_the_process_that_died_and_not_one_that_left_for_it() -> None:
    killed, left, failed = exited("worker-1", -9), exited("worker-0", 75), exited("server-0", DATA)
    terminated, done = exited("scheduler", -15, was_terminated=True), exited("worker-2", 0)
    assert root_cause([left, killed, terminated]) is killed
    assert root_cause([left, killed, failed]) is failed
    assert root_cause([terminated, done, left]) is left
    assert root_cause([done, terminated]) is terminated


def test_the_root_cause_is_the_process_that_failed_and_not_the_first_to_say_so() -> None:
    """All end with the same code and words; only the log of the one that failed has the traceback."""
    other, own = (
        exited(name, 1, last="mxtrain.fit: worker-1: KeyError: 'a'") for name in ("server-0", "worker-1")
    )
    assert root_cause([other, own]) is own
    assert exit_message(own) == "worker-1 ended with exit code 1: KeyError: 'a'"
    assert exit_message(other) == "server-0 ended with exit code 1: worker-1: KeyError: 'a'"


def test_where_all_were_terminated_the_first_is_the_cause_though_another_misses_somebody() -> None:
    held = exited("server-0", -9, was_terminated=True)
    said = "mxtrain.fit: worker-0: the scheduler at 127.0.0.1:9000 has gone"
    left = exited("worker-0", 75, was_terminated=True, last=said)
    assert root_cause([held, exited("scheduler", -15, was_terminated=True), left]) is held


def test_seconds_add_up_over_the_attempts() -> None:
    attempts = [
        [exited("worker-0", -9), exited("scheduler", 75)],
        [exited("scheduler", 0), exited("worker-0", 0)],
    ]
    assert summary(attempts).splitlines() == [
        "2 attempts, and at the end:",
        "  scheduler    exit 0       2.0 s",
        "  worker-0     exit 0       2.0 s",
    ]


def test_a_process_that_ps_lite_ended_is_named_with_what_reached_it() -> None:
    said = "  what():  [18:28] ../3rdparty/ps-lite/src/van.cc:520: Check failed: pb.Parse(): failed to parse string"
    lines = (said, "Stack trace:", "  [bt] (0) libmxnet.so")
    struck = ProcessExit(ProcessSpec("worker-1", (), {}, Path("log")), -6, 1.0, False, False, lines)
    assert exit_message(struck).startswith("worker-1 was killed by SIGABRT in ps-lite (pb.Parse(): failed to")
    assert "a message that was none of this job's reached its port" in exit_message(struck)
    assert exit_message(exited("worker-1", -6)) == "worker-1 was killed by SIGABRT"


@pytest.mark.parametrize(
    ("code", "signal_name"), [(-6, "was killed by SIGABRT"), (127, "ended with exit code 127")]
)
def test_memory_is_named_where_c_code_ran_out_of_it(code: int, signal_name: str) -> None:
    short = exited("server-0", code, last="  what():  std::bad_alloc")
    assert exit_message(short).startswith(
        f"server-0 {signal_name}: memory has run out (what():  std::bad_alloc)"
    )


def test_what_speaks_for_a_shortage_is_told_of_a_process_that_a_signal_ended() -> None:
    limited = "its memory is limited to 2.0 GB (ulimit -v) and may have run out"
    short = dataclasses.replace(exited("worker-1", -11), memory=limited)
    assert exit_message(short) == f"worker-1 was killed by SIGSEGV; {limited}"
