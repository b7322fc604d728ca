"""One attempt: its processes start together and end together, each wait bounded: real processes."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from mxtrain.core.errors import SIGINT, SIGTERM
from mxtrain.launch.attempt import GracePeriods, StopRequests, run_attempt
from mxtrain.launch.exits import exit_message, job_exit_code
from mxtrain.launch.plan import ProcessSpec
from tests.support.jobs.supervised_groups import NAMES, ROOT


@pytest.mark.slow  # a wait
@pytest.mark.parametrize(("number", "most_seconds"), [(signal.SIGSTOP, 4), (0, 30)])
def test_a_stopped_process_is_not_waited_for(tmp_path: Path, number: int, most_seconds: float) -> None:
    """The first of two is killed and the second does not react; unless SIGSTOP holds it, it has its grace period."""
    imports = "import os, signal, time; "
    deaf = imports + "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.kill(os.getpid(), {}); time.sleep(60)"
    codes = {
        "worker-0": imports + "time.sleep(0.5); os.kill(os.getpid(), 9)",
        "worker-1": deaf.format(number),
    }
    group = [
        ProcessSpec(name, (sys.executable, "-c", code), {}, tmp_path / f"{name}.log")
        for name, code in codes.items()
    ]
    began = time.monotonic()
    exits = run_attempt(group, 0, GracePeriods(death_seconds=5, kill_seconds=1), StopRequests())
    seconds = time.monotonic() - began
    assert [(each.process.name, each.code, each.was_terminated) for each in exits] == [
        ("worker-0", -9, False),
        ("worker-1", -9, True),
    ]
    assert seconds < most_seconds and (number or seconds > 6)


def test_the_grace_period_depends_on_how_one_ended() -> None:
    grace = GracePeriods(death_seconds=1, done_seconds=2, stop_seconds=3)
    for code, is_stop_requested, has_workers, seconds in (
        (-9, False, True, 1),
        (1, True, True, 1),
        (75, False, True, 1),
        (75, True, True, 3),
        (143, False, True, 3),
        (143, False, False, 1),
        (0, False, True, 2),
        (0, True, False, 1),
    ):
        assert grace.after_exit(code, is_stop_requested, has_workers) == seconds, (
            code,
            is_stop_requested,
            has_workers,
        )


def test_a_signal_while_processes_are_started_ends_the_job(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import time; time.sleep(30)")
    processes = [ProcessSpec(name, argv, {}, tmp_path / f"{name}.log") for name in NAMES]
    exits = run_attempt(processes, 0, GracePeriods(), StopRequests([signal.SIGTERM]))
    assert [each.process.name for each in exits] == ["scheduler"], "no other was started"
    assert job_exit_code(exits, SIGTERM) == SIGTERM


EARLY = """
import os, signal
from mxtrain.core.die_with_parent import die_with_parent
os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, lambda *_: os._exit(130))
die_with_parent()
"""


def test_a_signal_before_a_process_is_ready_for_it_waits(tmp_path: Path) -> None:
    process = ProcessSpec(
        "worker-0", (sys.executable, "-c", EARLY), {"PYTHONPATH": str(ROOT)}, tmp_path / "log"
    )
    (exited,) = run_attempt([process], 0, GracePeriods(), StopRequests())
    assert (exited.code, exited.last_lines) == (SIGINT, ()), "no traceback"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os.kill(os.getpid(), 11)", "was killed by SIGSEGV"),
        # As MXNet does after a segmentation fault.
        (
            'os.write(2, b"Segmentation fault: 11\\n"); os._exit(255)',
            "ended with exit code 255: Segmentation fault: 11",
        ),
    ],
)
def test_the_limit_of_a_process_is_told_where_a_signal_ended_it(end: str, said: str, tmp_path: Path) -> None:
    limited = f"import os, resource as r; r.setrlimit(r.RLIMIT_AS, (2 * 10**9,) * 2); {end}"
    process = ProcessSpec("worker-0", (sys.executable, "-c", limited), {}, tmp_path / "log")
    (ended,) = run_attempt([process], 0, GracePeriods(), StopRequests())
    limit = "its memory is limited to 2.0 GB (ulimit -v) and may have run out"
    assert exit_message(ended) == f"worker-0 {said}; {limit}"
