"""A supervised group of processes restarts as a whole: real processes, real signals, real exit codes.

Stand-ins take the roles: the supervisor sees how they end and not what they do.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Callable

import pytest

from mxtrain.core.errors import RESTART_ME, SIGTERM, USAGE
from mxtrain.launch import exits, supervisor
from mxtrain.launch.plan import ProcessSpec
from tests.support.breadth import slow_cases
from tests.support.jobs.supervised_groups import NAMES, ROOT, SupervisedGroup, is_ready, starting, until  # noqa: F401

# Where all end by themselves: on a busy machine one may take longer than another to come to its end, or to begin.
AMPLE = {"death_seconds": 20.0, "done_seconds": 20.0}


def test_a_job_ends_when_all_are_done(start: Callable[..., SupervisedGroup]) -> None:
    job = start(
        grace=AMPLE,
        **dict.fromkeys(["scheduler", "server_0", "worker_0", "worker_1"], "print('half', end='')"),
    )
    code, stdout, stderr = job.ended()
    assert code == 0
    assert stdout == "worker-0 | worker-0 in attempt 0\nworker-0 | half\n"
    assert job.log("worker-1").splitlines()[1:] == ["worker-1 in attempt 0", "half"]
    assert "1 attempt, and at the end:" in stderr
    assert [line.split()[:3] for line in stderr.splitlines()[-4:]] == [[name, "exit", "0"] for name in NAMES]


@pytest.mark.parametrize("victim", ["scheduler", *slow_cases("server-0", "worker-0", "worker-1")])
def test_when_one_process_is_killed_all_restart(start: Callable[..., SupervisedGroup], victim: str) -> None:
    codes = {name.replace("-", "_"): "attempt or others_leave()" for name in NAMES}
    job = start(grace=AMPLE, **{**codes, victim.replace("-", "_"): "attempt or kill(9)"})
    code, _, stderr = job.ended()
    assert code == 0
    assert f"{victim} was killed by SIGKILL; restart 1 of 3 in 0.1 s from the newest checkpoint" in stderr
    for name in NAMES:
        lines = job.log(name).splitlines()
        assert [line for line in lines if line.startswith("---")] == [lines[0], lines[-2]]
        assert lines[0].startswith(f"--- {name}, attempt 0, ") and lines[-1] == f"{name} in attempt 1"
    assert [line.split()[:3] for line in stderr.splitlines()[-4:]] == [[name, "exit", "0"] for name in NAMES]


def test_a_process_that_does_not_leave_is_terminated(start: Callable[..., SupervisedGroup]) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); attempt or wait()"
    job = start(
        scheduler="attempt or wait()", server_0=deaf, worker_0=deaf, worker_1="attempt or sys.exit(1)"
    )
    code, _, stderr = job.ended()
    assert code == 0
    assert "worker-1 ended with exit code 1: worker-1 in attempt 0; restart 1 of 3" in stderr


def test_a_frozen_process_is_killed_for_the_reason_that_the_others_give(
    start: Callable[..., SupervisedGroup],
) -> None:
    leave = "attempt or others_leave()"
    job = start(scheduler=leave, server_0=leave, worker_0=leave, worker_1="attempt or kill(signal.SIGSTOP)")
    code, _, stderr = job.ended()
    assert code == 0
    assert " left: worker-1 has gone silent; restart 1 of 3" in stderr


@pytest.mark.slow  # it is slow for its restarts, a second each
def test_restarts_without_progress_come_to_an_end(start: Callable[..., SupervisedGroup]) -> None:
    job = start(
        max_restarts=2,
        names=["worker-0", "worker-1"],
        worker_0="save(40) if not attempt else None; wait()",
        worker_1="time.sleep(0.2); 1 / 0",
    )
    code, stdout, stderr = job.ended()
    assert code == exits.GAVE_UP
    assert "restart 1 of 2 in 0.1 s from step 40" in stderr and "restart 2 of 2 in 0.2 s" in stderr
    assert "worker-1 ended with exit code 1: ZeroDivisionError: division by zero; given up after 2" in stderr
    assert "worker-1 | Traceback (most recent call last):\n" in stdout
    assert job.log("worker-1").count("--- worker-1, attempt") == 3


FAILS = "(print({!r}, file=sys.stderr), sys.exit(1))"
MISSING = "AttributeError: module 'numpy' has no attribute 'boolean'"


@pytest.mark.parametrize("where", ["", ", at step 0 (step)"])
def test_the_same_error_twice_before_the_first_step_is_not_tried_again(
    start: Callable[..., SupervisedGroup], where: str
) -> None:
    """The error may come from any process: here from the worker itself, then from one that has learned of it."""
    own, other = FAILS.format(MISSING + where), FAILS.format(f"mxtrain.fit: worker-1: {MISSING}{where}")
    job = start(
        max_restarts=9,
        names=["scheduler", "worker-1"],
        scheduler=f"attempt and {other}; wait()",
        worker_1=f"attempt or {own}; wait()",
    )
    code, _, stderr = job.ended()
    assert code == 1
    assert (
        f"scheduler ended with exit code 1: worker-1: {MISSING}{where}; given up as it was the same" in stderr
    )
    assert "restart 1 of 9" in stderr and "restart 2 of 9" not in stderr


@pytest.mark.parametrize(
    "words",
    [
        f"{MISSING}, at step 7 (step)",
        "TypeError: of attempt {attempt}",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "FileNotFoundError: [Errno 2] No such file or directory: '/not/mounted/yet'",
        "RuntimeError: can't start new thread",
    ],
)
def test_an_error_that_may_pass_is_tried_again(start: Callable[..., SupervisedGroup], words: str) -> None:
    fails = FAILS.replace("{!r}", f"f{words!r}")
    code, _, stderr = start(max_restarts=2, names=["worker-0"], worker_0=fails).ended()
    assert code == 1 and "given up after 2 restarts" in stderr


@pytest.mark.slow  # it is slow for its restarts, a second each
def test_a_newer_checkpoint_resets_the_count_of_restarts(start: Callable[..., SupervisedGroup]) -> None:
    (job_0, job_1) = (
        "save(10 * attempt) if attempt < 4 else None; attempt > 3 or wait()",
        "time.sleep(0.3); attempt > 3 or kill(9)",
    )
    job = start(max_restarts=1, names=["worker-0", "worker-1"], worker_0=job_0, worker_1=job_1)
    code, _, stderr = job.ended()
    assert code == 0
    assert stderr.count("restart 1 of 1 in 0.1 s") == 4


def test_a_checkpoint_of_another_job_is_not_progress(
    start: Callable[..., SupervisedGroup], tmp_path: Path
) -> None:
    (tmp_path / "run" / "checkpoints" / "step-00000070").mkdir(parents=True)
    job = start(max_restarts=1, names=["worker-0", "worker-1"], worker_0="kill(9)")
    code, _, stderr = job.ended()
    assert code == exits.GAVE_UP
    assert "restart 1 of 1 in 0.1 s from step 70" in stderr


@pytest.mark.parametrize("code", [2, 3, 4])
def test_a_final_exit_code_ends_the_job(start: Callable[..., SupervisedGroup], code: int) -> None:
    fails = f"print('train.rec: record 7 is damaged', file=sys.stderr); sys.exit({code})"
    job = start(names=["worker-0", "worker-1"], worker_1=fails)
    ended, _, stderr = job.ended()
    assert ended == code
    assert f"worker-1 ended with exit code {code}: train.rec: record 7 is damaged\n" in stderr
    assert "restart" not in stderr


def test_without_restarts_the_exit_code_asks_the_caller_for_one(
    start: Callable[..., SupervisedGroup],
) -> None:
    code, _, stderr = start(max_restarts=0, server_0="kill(9)").ended()
    assert code == RESTART_ME
    assert "server-0 was killed by SIGKILL; the same command resumes" in stderr


def test_a_frozen_supervisor_delays_no_process(start: Callable[..., SupervisedGroup]) -> None:
    much = "(out / f'{name}.ready').touch(); time.sleep(0.5); [print('x' * 999) for _ in range(1000)]"
    job = start(**{name.replace("-", "_"): much for name in NAMES})
    until(is_ready(job, *NAMES), "they did not start")
    job.process.send_signal(signal.SIGSTOP)
    until(
        lambda: all(job.log(name).count("\n") == 1002 for name in NAMES), "a process waits for its supervisor"
    )
    job.process.send_signal(signal.SIGCONT)
    code, stdout, _ = job.ended()
    assert code == 0
    assert stdout.count("worker-0 | xxx") == 1000


def test_a_closed_terminal_does_not_end_the_job(start: Callable[..., SupervisedGroup]) -> None:
    job = start(**{name.replace("-", "_"): "time.sleep(0.5); print('more')" for name in NAMES})
    job.process.stdout.close()  # type: ignore[union-attr]
    job.process.stderr.close()  # type: ignore[union-attr]
    assert job.process.wait(20) == 0


def test_a_server_that_hangs_at_the_end_does_not_fail_the_job(start: Callable[..., SupervisedGroup]) -> None:
    assert start(worker_0="", worker_1="", scheduler="").ended()[0] == 0


def test_a_worker_that_hangs_at_the_end_causes_a_restart(start: Callable[..., SupervisedGroup]) -> None:
    job = start(worker_0="", worker_1="attempt or wait()", scheduler="", server_0="")
    code, _, stderr = job.ended()
    assert code == 0
    assert "worker-1 did not end by itself; restart 1 of 3" in stderr


def test_a_single_role_is_restarted_too(start: Callable[..., SupervisedGroup]) -> None:
    job = start(names=["server-3"], server_3="sys.exit(75) if not attempt else stop(143)")
    until(is_ready(job, "server-3"), "no second attempt")
    job.process.send_signal(signal.SIGTERM)
    code, stdout, stderr = job.ended()
    assert code == SIGTERM
    assert "server-3 | server-3 in attempt 1\n" in stdout and "restart 1 of 3" in stderr


@pytest.mark.parametrize("max_restarts", [3, *slow_cases(0)])
@pytest.mark.parametrize("becomes", ["shutil.rmtree(out)", "out.rename(out.with_name('moved')); out.mkdir()"])
def test_no_attempt_begins_where_the_run_folder_has_gone(
    start: Callable[..., SupervisedGroup], max_restarts: int, becomes: str
) -> None:
    removes = f"import shutil; save(5); {becomes}; kill(9)"
    job = start(names=["scheduler", "worker-0"], worker_0=removes, max_restarts=max_restarts)
    code, _, stderr = job.ended()
    assert code == USAGE and "1 attempt, and at the end" in stderr
    said = [line for line in stderr.splitlines() if "--out" in line]
    assert (
        len(said) == 1 and f"--out {job.out}: is not there any more" in said[0] and "put it back" in said[0]
    )
    assert not (job.out / "logs").exists(), "nothing was begun there"


def test_a_command_that_is_not_there_leaves_nothing_running(tmp_path: Path) -> None:
    sleeper = ("sleep", "30")
    processes = [
        ProcessSpec("scheduler", sleeper, {"OUT": str(tmp_path)}, tmp_path / "scheduler.log"),
        ProcessSpec("worker-0", ("/does/not/exist",), {}, tmp_path / "worker-0.log"),
    ]
    policy = supervisor.RestartPolicy(dict)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(FileNotFoundError):
        supervisor.supervise(lambda attempt: processes, policy)
    assert signal.getsignal(signal.SIGTERM) is before
    assert subprocess.run(["pgrep", "-P", str(os.getpid()), "sleep"], capture_output=True).stdout == b""


def test_a_process_reads_its_standard_input(tmp_path: Path) -> None:
    process = ProcessSpec("scheduler", ("cat",), {}, tmp_path / "scheduler.log", stdin="a secret\n")
    assert supervisor.supervise(lambda attempt: [process], supervisor.RestartPolicy(dict)) == 0
    assert process.log.read_text().endswith("\na secret\n")


@pytest.mark.parametrize(
    ("resume", "newest", "there", "said"),
    [
        ("auto", -1, {}, "the newest checkpoint, if there is one"),
        ("auto", -1, {40: (1, 1)}, "step 40"),
        ("auto", 60, {40: (1, 1), 60: (2, 2)}, "step 60"),
        ("never", -1, {40: (1, 1)}, "the beginning"),
        ("never", 20, {20: (2, 2)}, "step 20"),
        ("runs/a/checkpoints/step-40", -1, {80: (1, 1)}, "runs/a/checkpoints/step-40"),
        ("runs/a/checkpoints/step-40", 50, {80: (1, 1), 50: (2, 2)}, "step 50"),
    ],
)
def test_the_announced_resume_point_is_where_the_workers_will_resume(
    resume: str, newest: int, there: dict[int, tuple[int, int]], said: str
) -> None:
    """--resume never and PATH apply to the first attempt; an older run's checkpoints are not the job's own."""
    assert supervisor.resume_point(supervisor.RestartPolicy(lambda: there, resume=resume), newest) == said


def test_pauses_double_up_to_a_minute() -> None:
    policy = supervisor.RestartPolicy(dict)
    assert [supervisor.pause_seconds(n, policy) for n in (1, 2, 3, 6, 7, 8, 99)] == [1, 2, 4, 32, 60, 60, 60]
