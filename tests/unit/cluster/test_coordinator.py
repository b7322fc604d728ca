"""All processes of a job end together, whatever happens to one of them: real processes, sockets and signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mxtrain.cluster import agent, ps_lite, stalls
from mxtrain.cluster.agent import Agent
from mxtrain.cluster.channel import Timeouts
from mxtrain.core.errors import DataError
from mxtrain.launch.local import free_port
from mxtrain.report.sinks import writers
from tests.support.jobs import control_plane

SHORT_SILENCE = Timeouts(start=10, silence=1.0, stall=20)


def all_but(name: str) -> list[str]:
    return [other for other in control_plane.NAMES if other != name]


def summing_workers(folder: Path) -> dict[str, control_plane.Script]:
    """Workers that sum until they are ended, and make a file when they have begun."""

    def work(me: Agent) -> None:
        for step in range(100_000):
            me.report_progress("step", step)
            me.sum([step])
            (folder / f"{me.name}.busy").touch()
            time.sleep(0.01)

    return {"worker-0": work, "worker-1": work}


def wait_until_busy(folder: Path) -> None:
    for name in ("worker-0", "worker-1"):
        control_plane.wait_for_file(folder / f"{name}.busy")


def test_workers_that_round_unlike_are_told_so_and_go_on(tmp_path: Path) -> None:
    port = free_port()

    def work(me: Agent) -> None:
        print(*me.remarks, file=sys.stderr, flush=True)
        me.finish()

    job = {
        name: control_plane.Node(
            tmp_path,
            control_plane.node_spec(name, port),
            work if threads else None,
            info={"kernels": {"openblas": "Zen", "onednn": "AVX2"}, "threads": threads} if threads else {},
        )
        for name, threads in (("scheduler", 0), ("server-0", 0), ("worker-0", 1), ("worker-1", 3))
    }
    assert set(control_plane.exit_codes(job).values()) == {0}
    for name in ("scheduler", "worker-0", "worker-1"):
        assert job[name].last_words.count(" computes with 3 OpenMP threads and worker-0 ") == 1, name


def test_notes_reach_the_other_workers_without_waiting(tmp_path: Path) -> None:
    quick = Timeouts(start=20, silence=1.0, stall=20)

    def work(me: Agent) -> None:
        heard: list[object] = []
        deadline = time.monotonic() + 10
        for number in range(3):
            me.send_note({"of": me.name, "number": number})
            while sum(note["number"] == number for note in heard) < 1:  # type: ignore[index]
                assert time.monotonic() < deadline
                time.sleep(0.01)
                heard += me.heard()
            me.sum([0])
        assert me.is_first_on_host == (me.rank == 0)
        assert {note["of"] for note in heard} == {f"worker-{1 - me.rank}"}  # type: ignore[index]
        me.finish()

    job = control_plane.start_job(tmp_path, {"worker-0": work, "worker-1": work}, timeouts=quick)
    codes = control_plane.exit_codes(job, 15)
    assert set(codes.values()) == {0}, {name: node.output for name, node in job.items()}


def test_sums_have_the_same_bits_everywhere_and_all_end_well(tmp_path: Path) -> None:
    port, mine = free_port(), {0: [1e16, 0.1], 1: [1.0, 0.2], 2: [-1e16, 0.3]}
    large = np.random.default_rng(0).random((1500, 1500))  # 18 MB, which is three messages

    def work(me: Agent) -> None:
        for _ in range(20):
            total = me.sum(mine[me.rank])
        np.save(tmp_path / f"{me.name}.npy", total)
        assert (me.sum(large * me.rank) == large + large * 2).all()
        assert me.sum(np.zeros((0, 3))).shape == (0, 3)
        assert me.world_size == 3
        me.finish()

    names = ["worker-2", "worker-10", "server-0", "worker-1", "scheduler"]
    job = {
        name: control_plane.Node(
            tmp_path, control_plane.node_spec(name, port, 3), work if "worker" in name else None
        )
        for name in names
    }
    assert set(control_plane.exit_codes(job).values()) == {0}, [node.output for node in job.values()]
    in_order = np.add(np.add(mine[0], mine[1]), mine[2])
    for name in ("worker-1", "worker-2", "worker-10"):
        assert np.load(tmp_path / f"{name}.npy").tobytes() == in_order.tobytes()


def test_a_killed_process_ends_the_others(tmp_path: Path) -> None:
    folders = {victim: tmp_path / victim for victim in control_plane.NAMES}
    running = {}
    for victim, folder in folders.items():
        folder.mkdir()
        running[victim] = control_plane.start_job(folder, summing_workers(folder))
    for victim, job in running.items():
        wait_until_busy(folders[victim])
        job[victim].send(signal.SIGKILL)
        found = control_plane.exit_codes(job, 3)
        assert found.pop(victim) == -signal.SIGKILL
        assert set(found.values()) == {75}, (victim, found)
        reason = "has gone" if victim == "scheduler" else f"{victim} ("
        for name in all_but(victim):
            line = job[name].last_words.strip()
            assert reason in line and "\n" not in line, line


def test_a_frozen_process_ends_the_others_and_itself_when_it_wakes(tmp_path: Path) -> None:
    running = {}
    for victim in control_plane.NAMES:
        (tmp_path / victim).mkdir()
        running[victim] = control_plane.start_job(
            tmp_path / victim, summing_workers(tmp_path / victim), timeouts=SHORT_SILENCE
        )
    for victim, job in running.items():
        wait_until_busy(tmp_path / victim)
        job[victim].send(signal.SIGSTOP)
    for victim, job in running.items():
        found = control_plane.exit_codes({name: job[name] for name in all_but(victim)}, 4)
        assert set(found.values()) == {75}, (victim, found)
        reason = "heard nothing from the scheduler" if victim == "scheduler" else f"{victim} ("
        assert reason in job[all_but(victim)[0]].output
        job[victim].send(signal.SIGCONT)
    for victim, job in running.items():
        assert job[victim].exit_code(3) == 75, job[victim].output


def test_a_short_freeze_of_one_and_a_long_one_of_all_are_survived(tmp_path: Path) -> None:
    def work(me: Agent) -> None:
        (tmp_path / me.name).touch()
        while not me.sum([(tmp_path / "enough").exists()])[0]:
            time.sleep(0.01)
        me.finish()

    job = control_plane.start_job(
        tmp_path, {"worker-0": work, "worker-1": work}, timeouts=Timeouts(start=10, silence=1.5, stall=1.5)
    )
    control_plane.wait_for_file(tmp_path / "worker-0")
    for frozen, seconds in (([job["worker-1"]], 0.5), (list(job.values()), 2.0)):
        for node in frozen:
            node.send(signal.SIGSTOP)
        time.sleep(seconds)
        for node in frozen:
            node.send(signal.SIGCONT)
        time.sleep(0.2)
    (tmp_path / "enough").touch()
    assert set(control_plane.exit_codes(job).values()) == {0}, [node.output for node in job.values()]


def hang_in_pull(me: Agent) -> None:
    me.report_progress("pull", 7)
    time.sleep(60)


def keep_going(me: Agent) -> None:
    for step in range(10_000):
        me.report_progress("step", step)
        time.sleep(0.01)


def wait_in_sum(me: Agent) -> None:
    me.sum([1.0])


def test_a_stalled_worker_is_named_and_prints_its_stacks(tmp_path: Path) -> None:
    timeouts = Timeouts(start=10, silence=10, stall=1.0)
    others = {"going on": keep_going, "waiting": wait_in_sum, "done": control_plane.finish}
    running = [
        control_plane.start_job(tmp_path, {"worker-0": other, "worker-1": hang_in_pull}, timeouts=timeouts)
        for other in others.values()
    ]
    for job in running:
        assert set(control_plane.exit_codes(job, 5).values()) == {75}
        for node in job.values():
            assert "worker-1 (" in node.output and "made no progress for 1." in node.output
            assert "at step 7 (pull)" in node.output
            assert ("in hang_in_pull" in node.output) == (node.name == "worker-1")


def test_a_process_prints_its_stacks_at_sigusr2_and_goes_on(tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"

    def linger(me: Agent) -> None:
        begun.touch()
        control_plane.wait_for_file(done)
        me.finish()

    job = control_plane.start_job(tmp_path, {"worker-0": linger})
    control_plane.wait_for_file(begun)
    for node in job.values():
        node.send(signal.SIGUSR2)
        control_plane.wait_for_output(node, "(most recent call first)")
    control_plane.wait_for_output(job["worker-0"], "in linger")
    done.touch()
    assert set(control_plane.exit_codes(job).values()) == {0}


def test_a_worker_that_still_imports_has_the_start_timeout(tmp_path: Path) -> None:
    def imports(me: Agent) -> None:
        time.sleep(1.5)
        me.report_progress("start", -1)
        time.sleep(1.5)
        me.report_progress("step", 0)
        me.sum([1.0])
        me.finish()

    def hangs_in_its_imports(me: Agent) -> None:
        time.sleep(60)

    def quick(me: Agent) -> None:
        me.report_progress("step", 0)
        me.sum([1.0])
        me.finish()

    timeouts = Timeouts(start=2.5, silence=10, stall=0.5)
    slow, hanging = (
        control_plane.start_job(tmp_path, {"worker-0": quick, "worker-1": work}, timeouts=timeouts)
        for work in (imports, hangs_in_its_imports)
    )
    assert set(control_plane.exit_codes(slow).values()) == {0}, [node.output for node in slow.values()]
    assert set(control_plane.exit_codes(hanging).values()) == {75}
    for node in hanging.values():
        found = re.search(r"worker-1 \(.*\) made no progress for ([\d.]+) s", node.output)
        assert found and float(found.group(1)) >= timeouts.start


def test_a_stall_before_the_first_step_is_reported_as_such(tmp_path: Path) -> None:
    def builds(me: Agent) -> None:
        me.report_progress("start", -1)
        time.sleep(60)

    timeouts = Timeouts(start=1.0, silence=10, stall=0.5)
    job = control_plane.start_job(
        tmp_path, {"worker-0": lambda me: me.sum([1.0]), "worker-1": builds}, timeouts=timeouts
    )
    assert set(control_plane.exit_codes(job).values()) == {75}
    for node in job.values():
        assert re.search(r"worker-1 \(.*\) made no progress for [\d.]+ s, before its first step", node.output)


def test_a_slow_worker_that_makes_progress_is_waited_for(
    tmp_path: Path,
) -> None:
    def slow(me: Agent) -> None:
        for step in range(10):
            me.report_progress("evaluation", step)
            time.sleep(0.3)
        me.sum([1.0])
        time.sleep(0.3)
        me.finish()

    def quick(me: Agent) -> None:
        me.sum([1.0])
        time.sleep(0.3)  # until a heartbeat after the long wait
        me.finish()

    job = control_plane.start_job(
        tmp_path, {"worker-0": quick, "worker-1": slow}, timeouts=Timeouts(10, 10, 0.7)
    )
    assert set(control_plane.exit_codes(job, 9).values()) == {0}, [node.output for node in job.values()]


def test_a_start_of_ps_lite_that_lasts_is_ended_and_nobody_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger has taken a place in ps-lite, and the processes of the job wait for their own."""
    monkeypatch.setattr(stalls, "MEETING_SECONDS", 0.5)
    late = tmp_path / "late"

    def start(me: Agent) -> None:
        if me.name == "worker-1":
            control_plane.wait_for_file(late)
        with ps_lite.THREADS.being_started(0):
            time.sleep(60)

    names = ("scheduler", "server-0", "worker-0", "worker-1")
    job = control_plane.start_job(tmp_path, dict.fromkeys(names, start))
    time.sleep(2)
    assert all(node.process.is_alive() for node in job.values()), "worker-1 still builds its net"
    late.touch()
    assert set(control_plane.exit_codes(job).values()) == {75}
    for node in job.values():
        assert "mxtrain.fit: ps-lite did not connect all processes" in node.last_words


def test_a_stop_that_workers_have_agreed_on_ends_all_with_its_code(tmp_path: Path) -> None:
    def stop(me: Agent) -> None:
        me.finish(143, "stopped by SIGTERM")

    job = control_plane.start_job(tmp_path, {"worker-0": stop, "worker-1": stop})
    assert set(control_plane.exit_codes(job).values()) == {143}
    assert {node.last_words for node in job.values()} == {"mxtrain.fit: stopped by SIGTERM\n"}


def test_a_failure_ends_all_with_its_code_and_reason(tmp_path: Path) -> None:
    def fail(me: Agent) -> None:
        raise DataError("a.rec: record 7 is damaged; pack it again")

    job = control_plane.start_job(tmp_path, {"worker-1": fail, **{"worker-0": control_plane.wait}})
    assert set(control_plane.exit_codes(job, 3).values()) == {3}
    for node in job.values():
        assert node.last_words == "mxtrain.fit: worker-1: a.rec: record 7 is damaged; pack it again\n"


def test_a_disk_without_room_ends_all_with_its_reason(tmp_path: Path) -> None:
    def write(me: Agent) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # EFBIG, as ENOSPC
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sink = writers.JsonLines(tmp_path / "metrics.jsonl", 0, False)
        with contextlib.closing(sink):
            for step in range(1000):
                sink.write({"kind": "train", "step": step})

    job = control_plane.start_job(tmp_path, {"worker-1": write, "worker-0": control_plane.wait})
    assert set(control_plane.exit_codes(job, 3).values()) == {2}
    reason = f"{tmp_path}/metrics.jsonl: cannot be written (File too large); make room, then the same command resumes"
    for node in job.values():
        assert node.last_words == f"mxtrain.fit: worker-1: {reason}\n"


def test_a_bug_prints_its_traceback_in_its_own_process_only(tmp_path: Path) -> None:
    def bug(me: Agent) -> None:
        raise ZeroDivisionError("two\nlines")

    job = control_plane.start_job(tmp_path, {"worker-1": bug, "worker-0": wait_in_sum})
    assert set(control_plane.exit_codes(job, 3).values()) == {1}
    assert "Traceback" in job["worker-1"].output
    for name in all_but("worker-1"):
        assert job[name].last_words == "mxtrain.fit: worker-1: ZeroDivisionError: two lines\n"


def test_a_sum_after_a_worker_has_finished_ends_the_job(tmp_path: Path) -> None:
    job = control_plane.start_job(tmp_path, {"worker-1": wait_in_sum}, timeouts=Timeouts(10, 2, 10))
    assert set(control_plane.exit_codes(job, 4).values()) == {75}
    assert "worker-0 (" in job["server-0"].output and "finished while worker-1" in job["server-0"].output


def test_sums_of_different_sizes_end_the_job(tmp_path: Path) -> None:
    job = control_plane.start_job(
        tmp_path, {f"worker-{n}": lambda me: me.sum([0.0] * (me.rank + 1)) for n in (0, 1)}
    )
    assert set(control_plane.exit_codes(job, 4).values()) == {75}
    assert "another worker has more or fewer" in job["server-0"].output


def test_a_process_that_holds_pythons_lock_ends_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lock_up(me: Agent) -> None:
        ctypes.PyDLL(None).sleep(60)

    monkeypatch.setattr(agent, "GIL_SECONDS", 1.0)
    timeouts = Timeouts(start=10, silence=0.5, stall=20)
    job = control_plane.start_job(tmp_path, {"worker-1": lock_up, "worker-0": wait_in_sum}, timeouts=timeouts)
    found = control_plane.exit_codes(job, 8)
    assert found.pop("worker-1") == 1
    assert set(found.values()) == {75}
    assert "in lock_up" in job["worker-1"].output


def test_a_process_whose_stderr_nobody_reads_ends_in_time(tmp_path: Path) -> None:
    def block(me: Agent) -> None:
        _, full = os.pipe()
        os.dup2(full, 2)
        os.set_blocking(2, False)
        try:
            while True:
                os.write(2, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(2, True)
        (tmp_path / "full").touch()
        os.write(2, b"x" * 4096)

    job = control_plane.start_job(tmp_path, {"worker-0": block, "worker-1": control_plane.wait})
    control_plane.wait_for_file(tmp_path / "full")
    job["worker-1"].send(signal.SIGKILL)
    found = control_plane.exit_codes(job, 2.5)
    assert found.pop("worker-1") == -signal.SIGKILL
    assert set(found.values()) == {75}


def test_a_forked_child_does_not_keep_a_dead_workers_channel_open(tmp_path: Path) -> None:
    def fork_and_die(me: Agent) -> None:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    job = control_plane.start_job(tmp_path, {"worker-1": fork_and_die, "worker-0": wait_in_sum})
    found = control_plane.exit_codes(job, 3)
    assert found.pop("worker-1") == -signal.SIGKILL
    assert set(found.values()) == {75}
