"""Jobs over two hosts with real sshds: the same weights to the bit, whatever dies on the way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, Sequence

import pytest

from mxtrain.launch.ssh import PORT
from tests.support.commands import ROOT, Command
from tests.support.hosts.two_hosts import NamespaceHost, reached_by_ssh, two_hosts
from tests.support.jobs.short_run import (
    ENDLESS,
    FLAGS,
    MIDDLE,
    STEPS,
    assert_same_weights,
    is_under_way,
    run_alone,
)
from tests.support.process_tree import command_line
from tests.support.runs import newest, records, wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

STACKS_SECONDS = 1  # in which processes write their stacks
MOST_OF_A_LOG = 20_000  # letters
END_SECONDS = 30  # in which nothing of a job may be left, however it ended


class Lan:
    """Two hosts, and how a job is started on the first of them."""

    def __init__(
        self,
        hosts: tuple[NamespaceHost, NamespaceHost],
        ssh: str,
        roots: list[Path],
        folder: Path,
        digits: Path,
    ):
        self.hosts, self.first, self.second = hosts, hosts[0], hosts[1]
        self.roots, self.own_disk = roots, folder / "disk"
        (folder / "hosts").write_text("".join(f"{host.address}\n" for host in hosts))
        (folder / "hosts-of-three").write_text(f"{hosts[0].address} slots=2\n{hosts[1].address}\n")
        launcher = f"{sys.executable} -m mxtrain.launch ssh"
        self._launcher = [*launcher.split(), "--ssh", ssh, "--hosts", str(folder / "hosts")]
        self.of_three = ["--hosts", str(folder / "hosts-of-three")]
        self._data = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec")]

    def command(self, out: Path, *more: str, launched: Sequence[str] = ()) -> list[str]:
        counts = ["--num-workers", "2", "--num-servers", "1"]
        flags = [*counts, *self._data, "--out", str(out), *FLAGS, *more]
        return self.first.inside(*self._launcher, *launched, "--", *flags)

    def run(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(out, *more), cwd=ROOT, capture_output=True, text=True, timeout=200)

    @contextlib.contextmanager
    def started(self, out: Path, *more: str, launched: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
        line = self.command(out, *more, launched=launched)
        with subprocess.Popen(
            line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as job:
            try:
                yield job
            except AssertionError:
                print(self.state(out))
                raise
            finally:
                job.kill()

    def state(self, out: Path) -> str:
        """Say what all processes on the hosts wait for: their stacks, at the ends of their logs, and their sockets."""
        found = []
        for host in self.hosts:
            for pid in host.processes():
                line = command_line(pid).replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{host.address} {pid} {line[:300]}")
                if "mxtrain.fit" in line or "mxtrain.cluster.gateway" in line:
                    os.kill(pid, signal.SIGUSR2)
            for kinds in ("-tnpi", "-xnp"):
                listing = subprocess.run(host.inside("ss", kinds), capture_output=True, text=True, timeout=10)
                found.append(listing.stdout + listing.stderr)
        time.sleep(STACKS_SECONDS)
        logs = [*(out / "logs").glob("*.log"), out / "metrics.jsonl"]
        found += [f"{path.name}:\n{path.read_text()[-MOST_OF_A_LOG:]}" for path in logs if path.exists()]
        return "\n".join(found)

    def left(self) -> list[int]:
        """Processes on the hosts but for sshds, which may wait long for a silent peer."""
        found = [pid for host in self.hosts for pid in host.processes()]
        return [pid for pid in found if command_line(pid) and b"sshd" not in command_line(pid)]

    def is_empty_in(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.left() and time.monotonic() < end:
            time.sleep(0.1)
        return not self.left()


def role(host: NamespaceHost, name: str) -> int:
    """The process on a host that has this name."""
    for pid in host.processes():
        with contextlib.suppress(OSError):
            if f"MXTRAIN_NODE={name}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return pid
    raise AssertionError(f"no {name} on {host.namespace}")


@pytest.fixture(scope="module")
def lan(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Iterator[Lan]:
    folder = tmp_path_factory.mktemp("lan")
    with two_hosts() as hosts, reached_by_ssh(hosts, folder) as (ssh, roots):
        yield Lan(hosts, ssh, roots, folder, digits)


@pytest.fixture(scope="module")
def one_host(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    return run_alone(tmp_path_factory, command, digits)


def test_two_hosts_make_the_weights_of_one_and_after_sigterm_the_same_command_resumes(
    lan: Lan, one_host: Path, tmp_path: Path
) -> None:
    """Each role ran on its host; nothing is left there, neither after the checkpoint at SIGTERM nor after the end."""
    with lan.started(tmp_path) as job:
        wait_until(lambda: is_under_way(tmp_path), job)
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 143, job.communicate()[0]
    assert MIDDLE <= int(newest(tmp_path).name[5:]) < STEPS
    assert lan.is_empty_in(1)
    done = lan.run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | done: val accuracy" in done.stdout
    assert lan.is_empty_in(1)
    assert_same_weights(tmp_path, one_host)
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    assert logs >= {
        "scheduler.log",
        "server-0.log",
        "worker-0.log",
        "worker-1.log",
        f"{lan.second.address}.log",
    }


def kill_worker(lan: Lan, job: subprocess.Popen[str]) -> None:
    os.kill(role(lan.second, "worker-1"), signal.SIGKILL)


def kill_connection(lan: Lan, job: subprocess.Popen[str]) -> None:
    """The sshd on the second host that serves the job."""
    (session,) = (pid for pid in lan.second.processes() if b"@notty" in command_line(pid))
    os.kill(session, signal.SIGKILL)


@pytest.mark.slow  # without a shared disk, which is harder: the next test
@pytest.mark.parametrize("fault", [kill_worker, kill_connection])
def test_a_death_on_either_host_restarts_both(
    lan: Lan, one_host: Path, tmp_path: Path, fault: Callable[[Lan, subprocess.Popen[str]], None]
) -> None:
    with lan.started(tmp_path) as job:
        wait_until(lambda: is_under_way(tmp_path), job)
        fault(lan, job)
        said = job.communicate(timeout=200)[0]
    assert job.returncode == 0, said
    assert "restart 1 of 3" in said
    assert_same_weights(tmp_path, one_host)
    assert lan.is_empty_in(1)


@pytest.mark.slow  # tests/unit/cluster/test_resume_step.py has the step that is chosen for such disks
def test_hosts_without_a_shared_disk_resume_from_the_common_step(lan: Lan, one_host: Path) -> None:
    out = lan.own_disk / "run"
    outs = [root / out.relative_to("/") for root in lan.roots]
    with lan.started(out, "--resume", "never") as job:  # applies to the first attempt only
        wait_until(lambda: is_under_way(outs[0]), job)
        kill_worker(lan, job)
        said = job.communicate(timeout=200)[0]
    assert job.returncode == 0, said
    assert "restart 1 of 3" in said
    assert lan.is_empty_in(1)
    assert not (out / "checkpoints").exists()  # that is where the command was given
    for each in outs:
        assert_same_weights(each, one_host)
        assert not (each / "previous-1").exists()
    assert "resuming from" in (outs[1] / "logs" / "worker-1.log").read_text()


def test_a_killed_launcher_leaves_nothing_on_the_hosts(lan: Lan, tmp_path: Path) -> None:
    with lan.started(tmp_path, *ENDLESS) as job:
        wait_until(lambda: is_under_way(tmp_path), job)
        job.kill()
        assert lan.is_empty_in(5), lan.left()


@pytest.mark.slow  # tests/faults/test_refusals.py has nodes that refuse
def test_a_refusal_on_one_host_ends_the_job_with_its_reason(lan: Lan, tmp_path: Path) -> None:
    done = lan.run(tmp_path, "--train", str(tmp_path / "nowhere.rec"))
    assert done.returncode == 3
    assert "nowhere.rec does not exist" in done.stderr
    assert "restart" not in done.stderr


def has_trained_after_a_restart(out: Path) -> bool:
    restarts = [each["step"] for each in records(out, "event") if each["event"] == "restart"]
    return bool(restarts) and records(out, "train")[-1]["step"] > restarts[0]


@pytest.mark.slow
def test_a_stream_between_gateways_that_breaks_is_given_up_after_the_stall_timeout(
    lan: Lan, tmp_path: Path
) -> None:
    """All processes are alive then, with heartbeats, and ps-lite sends nothing twice."""
    with lan.started(tmp_path, *ENDLESS, "--stall-timeout", "5") as job:
        wait_until(lambda: is_under_way(tmp_path), job)
        lan.second.break_busiest_stream(lan.first.address, PORT)
        wait_until(lambda: has_trained_after_a_restart(tmp_path), job)
        job.kill()
        said = job.communicate()[0]
    assert "made no progress for 5." in said and "restart 1 of 3" in said, said
    assert lan.is_empty_in(5), lan.left()


# A cut that heals: tests/faults/test_network.py; what the coordinator does without a host: its own tests.
@pytest.mark.slow
def test_a_host_whose_cable_is_cut_is_left_out_until_it_is_back(
    lan: Lan, one_host: Path, tmp_path: Path
) -> None:
    """Three workers, then the two on the first host, then three."""
    flags = ["--num-workers", "3", "--min-workers", "2", "--start-timeout", "15"]
    with lan.started(tmp_path, *flags, launched=lan.of_three) as job:
        wait_until(lambda: is_under_way(tmp_path), job)
        lan.second.cut()
        step = records(tmp_path)[-1]["step"]
        wait_until(lambda: has_trained_after_a_restart(tmp_path), job)
        of_two = role(lan.first, "worker-1")
        os.kill(of_two, signal.SIGSTOP)  # or two would be done before the third is back
        lan.second.heal()
        os.kill(of_two, signal.SIGKILL)
        said = job.communicate(timeout=200)[0]
    assert job.returncode == 0 and step < STEPS, said
    assert said.count(f"{lan.second.address} does not answer; continuing without it") == 1, said
    came = (tmp_path / "logs" / "scheduler.log").read_text()
    assert (came.count("here: worker-1"), came.count("here: worker-2")) == (3, 2), came
    assert_same_weights(tmp_path, one_host)
    assert lan.is_empty_in(END_SECONDS), lan.left()
