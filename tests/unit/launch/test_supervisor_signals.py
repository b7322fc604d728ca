"""A supervised group is stopped by signals to its supervisor, and does not outlive it."""

from __future__ import annotations

import os
import signal
import time
from typing import Callable

import pytest

from mxtrain.core.errors import RESTART_ME, SIGINT, SIGTERM
from tests.support.jobs.supervised_groups import NAMES, ROOT, SupervisedGroup, is_ready, starting, until  # noqa: F401

STOPS = [(signal.SIGTERM, SIGTERM), (signal.SIGINT, SIGINT), (signal.SIGUSR1, RESTART_ME)]


@pytest.mark.parametrize(("number", "code"), STOPS)
def test_a_signal_is_forwarded_to_the_workers_once(
    start: Callable[..., SupervisedGroup], number: int, code: int
) -> None:
    job = start(worker_0=f"stop({code})", worker_1=f"stop({code})", server_0="stop(0)")
    until(is_ready(job, "worker-0", "worker-1", "server-0"), "they did not start")
    job.process.send_signal(number)
    ended, _, stderr = job.ended()
    assert ended == code
    assert "restart" not in stderr
    for name in ("worker-0", "worker-1"):
        assert job.log(name).count(f"got {signal.Signals(number).name}") == 1
    assert number == signal.SIGTERM or f"got {signal.Signals(number).name}" not in job.log("server-0")


SLOW_STOP = """
def leave(*_): time.sleep(1.6); print("saved", flush=True); sys.exit(143)
signal.signal(signal.SIGTERM, leave); (out / f"{name}.ready").touch(); wait()
"""


def test_a_worker_that_writes_a_checkpoint_may_finish_it(start: Callable[..., SupervisedGroup]) -> None:
    job = start(worker_0=SLOW_STOP, worker_1="stop(143)")
    until(is_ready(job, "worker-0", "worker-1"), "they did not start")
    job.process.send_signal(signal.SIGTERM)
    job.process.send_signal(signal.SIGTERM)  # at once: the same request, as timeout(1) sends it
    assert job.ended()[0] == SIGTERM
    assert job.log("worker-0").endswith("saved\n")


@pytest.mark.alone
def test_a_second_signal_ends_all_at_once(start: Callable[..., SupervisedGroup]) -> None:
    job = start(worker_0=SLOW_STOP, worker_1=SLOW_STOP)
    until(is_ready(job, "worker-0", "worker-1"), "they did not start")
    job.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert job.ended()[0] == SIGTERM
    assert time.monotonic() - began < 1
    assert "saved" not in job.log("worker-0")


def test_a_worker_that_does_not_stop_is_killed_after_its_grace_period(
    start: Callable[..., SupervisedGroup],
) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); (out / f'{name}.ready').touch(); wait()"
    job = start(worker_0=deaf, worker_1="stop(143)")
    until(is_ready(job, "worker-0", "worker-1"), "they did not start")
    job.process.send_signal(signal.SIGTERM)
    assert job.ended(10)[0] == SIGTERM


def test_a_signal_between_two_attempts_ends_the_job(start: Callable[..., SupervisedGroup]) -> None:
    job = start(max_restarts=20, names=["worker-0"], worker_0="Path(out / f'{attempt}').touch(); kill(9)")
    until((job.out / "4").exists, "no attempt 4")
    until(lambda: not job.pids(), "its processes still run")
    job.process.send_signal(signal.SIGTERM)
    assert job.ended(5)[0] == SIGTERM
    assert "attempt 5" not in job.log("worker-0")


def test_workers_that_somebody_else_has_stopped_stay_stopped(start: Callable[..., SupervisedGroup]) -> None:
    job = start(worker_0="stop(143)", worker_1="stop(143)")
    until(is_ready(job, "worker-0", "worker-1"), "they did not start")
    for name in ("worker-0", "worker-1"):
        os.kill(job.pid(name), signal.SIGTERM)
    code, _, stderr = job.ended()
    assert code == SIGTERM and "restart" not in stderr


def test_a_worker_that_stops_before_the_rendezvous_ends_the_job_without_a_restart(
    start: Callable[..., SupervisedGroup],
) -> None:
    missing = "time.sleep(0.5); print('worker-0 did not come', file=sys.stderr); sys.exit(2)"
    job = start(worker_0="sys.exit(143)", worker_1=missing, server_0=missing, scheduler=missing)
    code, _, stderr = job.ended()
    assert code == SIGTERM and "restart" not in stderr


def test_a_worker_that_misses_the_scheduler_stop_has_nothing_to_save(
    start: Callable[..., SupervisedGroup],
) -> None:
    """A worker that had not reached the rendezvous yet."""
    job = start(worker_0="sys.exit(143)", scheduler="sys.exit(143)", server_0="sys.exit(143)")
    until(lambda: len(job.pids()) == 1, "they did not end")
    began = time.monotonic()
    assert job.ended()[0] == SIGTERM
    assert time.monotonic() - began < 2, "and not after --stall-timeout"


def test_ctrl_c_on_the_terminal_reaches_the_supervisor_alone(start: Callable[..., SupervisedGroup]) -> None:
    job = start(worker_0="stop(130)", worker_1="stop(130)")
    until(is_ready(job, "worker-0", "worker-1"), "they did not start")
    assert all(os.getsid(pid) == pid for pid in job.pids())
    assert len(job.pids()) == len(NAMES)


def test_nothing_survives_a_killed_supervisor(start: Callable[..., SupervisedGroup]) -> None:
    job = start(worker_0="stop(143)", worker_1="stop(143)", server_0="stop(0)", scheduler="stop(0)")
    until(is_ready(job, *NAMES), "they did not start")
    job.process.kill()
    job.process.wait(5)
    until(lambda: not job.pids(), "a process outlives its supervisor", seconds=2)
