"""`doctor --hosts` over real sshds: a slow link, a closed port, a full disk and hosts that do not answer are named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.support.commands import ROOT
from tests.support.hosts.lan import drop_arriving, lan, slow_down
from tests.support.hosts.two_hosts import NamespaceHost, do, need, reached_by_ssh
from tests.support.process_tree import command_line

pytestmark = [pytest.mark.system, pytest.mark.timeout(200)]

PORT = 9091


class Lan:
    """Three hosts, and doctor on the first of them."""

    def __init__(self, hosts: list[NamespaceHost], ssh: str, roots: list[Path], disk: Path):
        self.hosts, self.ssh, self.roots, self.disk = hosts, ssh, roots, disk
        self.addresses = [host.address for host in hosts]

    def doctor(self, *flags: str, hosts: str = "") -> subprocess.CompletedProcess[str]:
        names = hosts or ",".join(self.addresses)
        line = [
            sys.executable,
            "-m",
            "mxtrain.doctor",
            "--hosts",
            names,
            "--ssh",
            self.ssh,
            "--out",
            str(self.disk),
        ]
        return subprocess.run(
            self.hosts[0].inside(*line, *flags), cwd=ROOT, capture_output=True, text=True, timeout=150
        )


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lan]:
    need("tc")
    folder = tmp_path_factory.mktemp("lan")
    with lan(3) as hosts, reached_by_ssh(hosts, folder) as (ssh, roots):
        yield Lan(hosts, ssh, roots, folder / "disk")


def found_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_nothing_stays(network: Lan) -> None:
    for root in network.roots:
        assert not list((root / str(network.disk).lstrip("/")).iterdir())
    time.sleep(0.5)
    left = [command_line(pid) for host in network.hosts for pid in host.processes()]
    assert not [line for line in left if b"mxtrain" in line and b"sshd" not in line]


@pytest.mark.slow  # the next tests have two that answer, and three of which each has something wrong
def test_three_hosts_are_examined_and_nothing_stays_there(network: Lan) -> None:
    done = network.doctor("--json")
    assert done.returncode == 0, done.stderr
    found = found_of(done)
    assert [host["address"] for host in found["hosts"]] == network.addresses
    assert len(found["pairs"]) == 6
    assert all(not pair["problems"] and pair["bytes_per_second"] > 1e6 for pair in found["pairs"])
    assert all(abs(host["clock_offset"]) < 1 and not host["disk"]["shared_with"] for host in found["hosts"])
    assert_nothing_stays(network)


def test_a_slow_link_a_closed_port_and_a_full_disk_are_named(network: Lan) -> None:
    """The second host sends slowly, the third drops what comes for all ports but one and has a disk of 8 MB."""
    second, third = network.hosts[1:]
    slow_down(second, 40)
    drop_arriving(third, PORT, PORT + 6)
    pid = re.fullmatch(r"/proc/(\d+)/root", str(network.roots[2]))
    assert pid
    do("nsenter", f"--mount=/proc/{pid[1]}/ns/mnt", "mount", "-o", "remount,size=8m", str(network.disk))
    done = network.doctor()
    said = " ".join(done.stdout.split())
    first_two = " and ".join(network.addresses[:2])
    assert (
        f"{first_two} do not reach ports {PORT} to {PORT + 6} of {third.address} ({third.address}): dropped"
        in said
    )
    assert f"{third.address}: --out {network.disk} has 8.39 MB free: checkpoints soon fill it" in said
    for target in (network.hosts[0], third):
        assert re.search(
            rf"from {second.address} to {target.address} [45][.\d]* MB/s go through, between others", said
        )
    assert f"from {third.address} to {second.address}" not in said.partition("to do")[2]


def test_hosts_that_do_not_answer_are_named_and_the_others_go_on(network: Lan) -> None:
    """One address is nobody's."""
    nobody = "10.213.9.77"
    known_hosts = network.disk.parent / "known_hosts"
    known_hosts.write_text(
        known_hosts.read_text() + known_hosts.read_text().split("\n")[0].replace("10.213.9.1", nobody)
    )
    started = time.monotonic()
    done = network.doctor("--json", hosts=",".join([network.addresses[0], nobody, network.addresses[1]]))
    assert time.monotonic() - started < 90
    assert done.returncode == 2
    assert f"1 of 3 hosts did not answer to the end: {nobody}" in done.stderr
    hosts = found_of(done)["hosts"]
    assert "cannot be reached: " in hosts[1]["error"]
    pairs = found_of(done)["pairs"]
    assert {(pair["from"], pair["to"]) for pair in pairs} == {(0, 2), (2, 0)}
    assert all(not pair["problems"] and pair["bytes_per_second"] > 1e6 for pair in pairs)
    assert_nothing_stays(network)


def test_a_host_with_another_python_is_named(network: Lan) -> None:
    done = network.doctor("--json", "--python", "/usr/bin/no-python")
    assert done.returncode == 2
    assert all("has no such Python" in host["error"] for host in found_of(done)["hosts"])
