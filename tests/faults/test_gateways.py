"""A job over hosts to whose gateways strangers come, from a third host and as other users, and whose gateways die."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.faults.case import DONE_SECONDS
from tests.faults.job import STEPS_PER_EPOCH, result, wait_for
from tests.faults.two_host_job import TwoHostJob
from tests.support.hosts.lan import lan
from tests.support.hosts.two_hosts import NamespaceHost
from tests.support.process_tree import children
from tests.support.runs import has_step, records

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]
NOBODY = 65534
# What a stranger says to a port, or to a socket's path, a line for each try: "let in" where anything came back.
STRANGER = """
import contextlib, encodings.idna, os, random, socket, ssl, sys
from pathlib import Path
from mxtrain.cluster.gateway import credentials
from mxtrain.cluster.gateway.handshake import HandshakeFailed, connect
from tests.support.hosts import ps_lite_messages as messages
from tests.support.processes.sockets import Listener

rng, user = random.Random(0), int(sys.argv[1])
strangers = credentials.of_secret("the secret of another job")
strangers.client.verify_mode = ssl.CERT_NONE
os.setgroups([])
os.setgid(user)
os.setuid(user)  # an interpreter in a home is its owner's, so no other user could start it
for word in sys.argv[2:]:
    address, _, port = word.partition(":")
    node = Listener(address, int(port)) if port else Path(word)
    with contextlib.suppress(OSError, AssertionError, ValueError):
        messages.send_random_bytes(node, rng.randrange(1000))
    for send in (messages.send_terminate, messages.send_add_node, messages.send_bad_protobuf):
        with contextlib.suppress(OSError, AssertionError, ValueError):
            send(node)
            print("let in", word, send.__name__, flush=True)
    for target in ("control", "4711") if port else ():
        with contextlib.suppress(OSError, HandshakeFailed):
            connect(address, int(port), strangers, target, 0, 3)
            print("let in", word, target, flush=True)
    silent = [socket.socket(socket.AF_INET if port else socket.AF_UNIX) for _ in range(300)]
    for each in silent:
        with contextlib.suppress(OSError):
            each.settimeout(3)
            each.connect(tuple(node) if port else word)
            each.sendall(rng.choice([b"GET / HTTP/1.1", bytes([22, 3, 1, 2, 0, 1])]))
    print("tried", word, flush=True)
"""


@contextlib.contextmanager
def job_on(hosts: list[NamespaceHost], folder: Path, *flags: str, **more: Any) -> Iterator[TwoHostJob]:
    """A job on the first two hosts, of which nothing is left at the end of the block."""
    job = TwoHostJob(hosts, folder, *flags, **more)
    try:
        assert wait_for(lambda: has_step(job.out, 3), DONE_SECONDS), job.output()
        yield job
        assert job.traces.left_behind() == []
    finally:
        job.kill()


def sockets_of_ps_lite(host: NamespaceHost) -> list[str]:
    """The paths in this host's /tmp that have the names of ps-lite's sockets."""
    done = subprocess.run(host.inside("ls", "/tmp"), capture_output=True, text=True, timeout=10, check=True)
    return [f"/tmp/{name}" for name in done.stdout.split() if name.isdecimal()]


def ports(host: NamespaceHost) -> list[str]:
    """All that listens on this host, as ADDRESS:PORT."""
    line = host.inside("ss", "--no-header", "-ltn")
    done = subprocess.run(line, capture_output=True, text=True, timeout=10, check=True)
    return [line.split()[3] for line in done.stdout.splitlines()]


def stranger(host: NamespaceHost, user: int, *targets: str) -> list[str]:
    """Return, line by line, what a user of this host achieved who tries all of the targets."""
    line = host.inside(sys.executable, "-c", STRANGER, str(user), *targets)
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow  # in small: tests/unit/cluster/gateway/test_gateway.py
def test_strangers_on_other_hosts_and_other_users_reach_nothing_and_move_nothing(
    tmp_path: Path, data: list[str]
) -> None:
    slow = ["--loss", "tests.support.losses.slow_loss:loss", "--epochs", "1000"]  # so all compute who try
    with lan(3) as hosts, job_on(hosts, tmp_path, *data, *slow) as job:
        gateways = [f"{host.address}:{job.port}" for host in hosts[:2]]
        assert [ports(host) for host in hosts] == [[gateways[0]], [gateways[1]], []]
        assert stranger(hosts[2], 0, *gateways) == [f"tried {gateway}" for gateway in gateways]
        for host, own in zip(hosts, gateways):
            paths = sockets_of_ps_lite(host)
            assert stranger(host, NOBODY, own, *paths) == [f"tried {each}" for each in (own, *paths)]
        step = records(job.out, "train")[-1]["step"]
        assert wait_for(lambda: has_step(job.out, step + 2), DONE_SECONDS), job.output()
        for process in job.processes.values():
            process.send_signal(signal.SIGTERM)
        assert wait_for(job.have_ended, DONE_SECONDS), job.output()
        assert set(job.codes().values()) == {143}, job.output()
    assert all("1 attempt" in each for each in job.output().values()), job.output()


@pytest.mark.slow  # in small: tests/unit/cluster/gateway/test_gateway.py, and test_ssh_hosts.py
@pytest.mark.parametrize("place", [0, 1])
def test_a_gateway_that_dies_is_named_and_the_job_goes_on_with_another(
    place: int, tmp_path: Path, data: list[str], held_undisturbed: tuple[object, ...]
) -> None:
    """Through it go the weights, which the server on the second host owns; workers hold a segment at a time."""
    with lan(2) as hosts, job_on(hosts, tmp_path, *data, kind="held", server_place=1) as job:
        assert wait_for(lambda: has_step(job.out, STEPS_PER_EPOCH + 3), DONE_SECONDS), job.output()
        gateway = job.gateway(hosts[place])
        os.kill(gateway, signal.SIGKILL)
        assert wait_for(job.have_ended, DONE_SECONDS), job.output()
        assert set(job.codes().values()) == {0}, job.output()
    said = job.output()
    named = f"the gateway of its host, process {gateway}, was killed by SIGKILL"
    assert any(named in each for each in said.values()), said
    assert all("restart 1 of" in each for each in said.values()), said
    assert result(job.out) == held_undisturbed


# tests/engine/kvstore/allreduce/test_ends.py has workers that die, test_ssh_hosts.py jobs over hosts.
@pytest.mark.slow
def test_workers_that_sum_among_themselves_over_hosts_resume_after_one_is_killed(
    tmp_path: Path, data: list[str], undisturbed: tuple[object, ...]
) -> None:
    with lan(2) as hosts, job_on(hosts, tmp_path, *data, num_servers=0) as job:
        assert [len(ports(host)) for host in hosts] == [1, 1], "each host's gateway listens, and nothing else"
        assert wait_for(lambda: has_step(job.out, STEPS_PER_EPOCH + 3), DONE_SECONDS), job.output()
        (worker,) = children(job.processes["worker-1"].pid)
        os.kill(worker, signal.SIGKILL)
        assert wait_for(job.have_ended, DONE_SECONDS), job.output()
        assert set(job.codes().values()) == {0}, job.output()
    said = job.output()
    assert "worker-1 was killed by SIGKILL" in "".join(said.values()), said
    assert all("restart 1 of" in each for each in said.values()), said
    assert result(job.out) == undisturbed
