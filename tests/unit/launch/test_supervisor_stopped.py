"""A process that SIGSTOP or a debugger holds is not waited for: where it is the only one, no other would end it."""

from __future__ import annotations

import os
import signal
import time
from typing import Callable

from mxtrain import config
from mxtrain.core.errors import SIGTERM
from mxtrain.launch import supervisor
from tests.support.jobs.supervised_groups import SupervisedGroup, is_ready, starting, until  # noqa: F401

ALONE = ["worker-0"]


def stopped(start: Callable[..., SupervisedGroup], code: str = "stop(143)") -> tuple[SupervisedGroup, int]:
    """A job of one worker, which SIGSTOP holds."""
    job = start(names=ALONE, worker_0=code)
    until(is_ready(job, *ALONE), "it did not start")
    worker = job.pid("worker-0")
    os.kill(worker, signal.SIGSTOP)
    return job, worker


def test_a_single_process_that_is_frozen_for_good_is_restarted(start: Callable[..., SupervisedGroup]) -> None:
    job = start(names=["server-3"], server_3="attempt or kill(signal.SIGSTOP)")
    code, _, stderr = job.ended(10)
    assert code == 0
    assert "server-3 is held by SIGSTOP or a debugger; killed" in stderr
    assert "server-3 did not end by itself; restart 1 of 3" in stderr


def test_a_process_that_is_frozen_for_less_goes_on(start: Callable[..., SupervisedGroup]) -> None:
    job, worker = stopped(start, "(out / f'{name}.ready').touch(); time.sleep(4)")
    for _ in range(2):  # together longer than too long
        time.sleep(0.9)
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.4)
        os.kill(worker, signal.SIGSTOP)
    os.kill(worker, signal.SIGCONT)
    code, _, stderr = job.ended()
    assert code == 0 and "restart" not in stderr


def test_after_a_stop_request_a_frozen_process_is_not_waited_for(
    start: Callable[..., SupervisedGroup],
) -> None:
    job, _ = stopped(start)
    job.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    code, _, stderr = job.ended()
    assert code == SIGTERM and "restart" not in stderr
    assert time.monotonic() - began < 2  # of 3 in which it may write a checkpoint


def test_after_a_stop_request_a_process_that_is_thawed_may_still_save(
    start: Callable[..., SupervisedGroup],
) -> None:
    job, worker = stopped(start)
    time.sleep(1)
    job.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    os.kill(worker, signal.SIGCONT)
    assert job.ended()[0] == SIGTERM
    assert "got SIGTERM" in job.log("worker-0")


def test_when_all_are_frozen_together_none_is_killed(start: Callable[..., SupervisedGroup]) -> None:
    job, worker = stopped(start, "(out / f'{name}.ready').touch(); time.sleep(1)")
    job.process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    job.process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    os.kill(worker, signal.SIGCONT)
    code, _, stderr = job.ended()
    assert code == 0 and "restart" not in stderr


def test_a_frozen_process_is_given_up_by_the_others_before_the_supervisor_kills_it() -> None:
    run = config.parse(["--train", "t.rec", "--silence-timeout", "40"])
    assert supervisor.restart_policy(run).grace.stopped_seconds > 40
