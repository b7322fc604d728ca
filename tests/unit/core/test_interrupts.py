"""Ctrl-C and SIGTERM while a command imports, at its work and at its end; e2e/pack/test_pack_stopped.py has more."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mxtrain.cluster.environment import LOOPBACK
from mxtrain.core import interrupts
from mxtrain.launch.local import free_port
from tests.support.breadth import slow_cases
from tests.support.data.loading import jpegs, write_records
from tests.support.jobs import control_plane
from tests.support.jobs.supervised_groups import until

ROOT = Path(__file__).resolve().parents[3]
NUMPY_AT_WORK = (
    "numpy._core.multiarray" if int(np.__version__.split(".")[0]) >= 2 else "numpy.core.multiarray"
)
# In the middle of what is imported the signal comes: right at the beginning, or where NumPy is at work.
MOMENTS = [
    ("mxtrain.fit", "mxtrain.core.errors"),
    ("mxtrain.evaluate", NUMPY_AT_WORK),
    ("mxtrain.predict", "numpy.version"),
    ("mxtrain.predict", NUMPY_AT_WORK),
    ("mxtrain.doctor", "mxtrain.core.errors"),
    ("mxtrain.launch", "mxtrain.core.errors"),
    ("mxtrain.doctor.cluster.sum_worker", NUMPY_AT_WORK),
    ("tools.im2rec_wrapper", "mxtrain.config.flags.arguments"),
]

WAITING = """
import sys, threading
from mxtrain.core.errors import one_line
from mxtrain.core import interrupts

def command():
    threading.Thread(target=threading.Event().wait).start()  # the interpreter waits for it, and would forever
    if "at work" in sys.argv:
        print("ready", flush=True)
        threading.Event().wait()

def stoppable():
    with interrupts.stopped_by_signal("it"):
        command()

code = one_line("it", stoppable)
print("ready", flush=True)
sys.exit(code)
"""


def interrupted(
    command: str, moment: str, number: int, more: dict[str, str], *flags: str
) -> tuple[int, list[str]]:
    """The exit code, and what is said on stderr besides what -X importtime says once a module is imported."""
    line = [sys.executable, "-X", "importtime", "-m", command, *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        for said in process.stderr:
            if said.split("|")[-1].strip() == moment:
                break
        else:
            pytest.fail(f"{command} never imports {moment}")
        process.send_signal(number)
        rest = process.stderr.read().splitlines()
    return process.returncode, [said for said in rest if not said.startswith("import time:")]


@pytest.mark.parametrize("number", [signal.SIGTERM, *slow_cases(signal.SIGINT, signal.SIGHUP)])
@pytest.mark.parametrize(("command", "moment"), MOMENTS)
def test_a_signal_during_imports_is_one_line(command: str, moment: str, number: signal.Signals) -> None:
    code, said = interrupted(command, moment, number, {})
    assert (code, len(said)) == (128 + number, 1), said
    assert said[0].endswith(f": stopped by {interrupts.MEANING[number]}")


def test_a_server_dies_of_a_signal_without_a_message() -> None:
    code, said = interrupted("mxtrain.fit", "mxtrain.core.errors", signal.SIGINT, {"DMLC_ROLE": "server"})
    assert (code, said) == (-signal.SIGINT, [])


def as_worker(root: str, port: int) -> dict[str, str]:
    place = {"DMLC_ROLE": "worker", "DMLC_PS_ROOT_URI": root, "DMLC_PS_ROOT_PORT": str(port)}
    return {**place, "DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1", "MXTRAIN_JOB": "secret"}


@pytest.mark.parametrize(
    ("moment", "number", "exit_code"),
    [
        ("mxtrain.core.errors", signal.SIGTERM, 143),
        ("mxtrain.core.errors", signal.SIGUSR1, 75),
        ("mxtrain.config", signal.SIGINT, 130),
        # Each signal and each moment is above; these are the other pairs.
        pytest.param("mxtrain.core.errors", signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param("mxtrain.config", signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param("mxtrain.config", signal.SIGUSR1, 75, marks=pytest.mark.slow),
    ],
)
def test_a_worker_that_still_imports_reports_the_signal_to_its_job(
    tmp_path: Path, moment: str, number: signal.Signals, exit_code: int
) -> None:
    """As later, between two steps: nobody takes it for a death."""
    records, port = write_records(tmp_path / "some.rec", jpegs(4)), free_port()
    scheduler = control_plane.Node(tmp_path, control_plane.node_spec("scheduler", port))
    flags = ["--train", str(records.path), "--out", str(tmp_path / "run"), "--kvstore", "dist_sync"]
    place = as_worker(LOOPBACK, port)
    code, said = interrupted("mxtrain.fit", moment, number, place, *flags, "--batch-size", "2")
    assert code == exit_code and "worker: stopped by " in said[-1], said
    assert scheduler.exit_code() == exit_code and "worker: stopped by " in scheduler.last_words


def test_a_worker_without_a_scheduler_address_exits_at_once() -> None:
    """Long before --start-timeout."""
    place = as_worker("nowhere.invalid", 9091)
    flags = ["--train", "some.rec", "--kvstore", "dist_sync"]
    code, said = interrupted("mxtrain.fit", "mxtrain.config", signal.SIGTERM, place, *flags)
    assert (code, said[-1]) == (143, "mxtrain.fit: stopped by SIGTERM")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("when", ["at work", "at its end"])
def test_threads_that_never_end_do_not_delay_the_exit(
    when: str, number: signal.Signals, exit_code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, when], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = f"it: left at once, on {interrupts.MEANING[number]}\n"
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        if when == "at work":
            said = f"it: stopped by {interrupts.MEANING[number]}\n" + said
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
            process.send_signal(number)
        _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
    assert (process.returncode, errors) == (exit_code, said)


ASLEEP = """
import signal, threading, time
from mxtrain.core.errors import one_line
from mxtrain.core import interrupts

def signal_here():
    time.sleep(0.5)  # by now the main thread sleeps
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    time.sleep(60)

def command():
    with interrupts.stopped_by_signal("it"):
        threading.Thread(target=signal_here, daemon=True).start()
        threading.Event().wait()

one_line("it", command)
"""


def test_a_signal_that_does_not_wake_the_main_thread_ends_the_command_all_the_same() -> None:
    """Another thread receives it; the same when it comes between the last line of Python and the sleep."""
    done = subprocess.run([sys.executable, "-c", ASLEEP], capture_output=True, text=True, timeout=20)
    assert done.stderr == "it: stopped by Ctrl-C\n"


ELSEWHERE = """
import signal, sys, time
from mxtrain.core.errors import one_line
from mxtrain.core import interrupts

class Array:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def in_a_finalizer():
    Array()
    time.sleep(60)

def taken_by_other_code():
    try:
        signal.raise_signal(signal.SIGTERM)
    except Exception:
        print("no such library")

def breaking_other_code():
    starting = {}
    try:
        signal.raise_signal(signal.SIGTERM)
    except Exception:
        del starting["thread"]  # as threading does in Thread.start

def command():
    with interrupts.stopped_by_signal("it"):
        globals()[sys.argv[1]]()

raise SystemExit(one_line("it", command))
"""


@pytest.mark.parametrize("where", ["in_a_finalizer", "taken_by_other_code", "breaking_other_code"])
def test_a_signal_in_the_midst_of_other_code_ends_the_command_all_the_same(where: str) -> None:
    line = [sys.executable, "-c", ELSEWHERE, where]
    done = subprocess.run(line, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (143, "it: stopped by SIGTERM\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_doctor_leaves_no_child_behind(number: signal.Signals) -> None:
    line = [sys.executable, "-m", "mxtrain.doctor"]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: probe_of(process.pid), "it checks no mxnet")
            child = probe_of(process.pid)
            until(lambda: "numpy" in Path(f"/proc/{child}/maps").read_text(), "its child imports nothing")
            process.send_signal(number)
            assert process.wait(10) in (-number, 128 + number)
            until(lambda: is_gone(child), "its child goes on", seconds=0.5)
        finally:
            process.kill()


def probe_of(pid: int) -> str:
    """Its child that imports mxnet; it has others, which look at the machine."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            if b"train_one_step" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    return ""


def is_gone(pid: str) -> bool:
    """Also where nobody has asked for its exit code yet."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
