"""Two hosts on one machine: network namespaces joined by a cable, and an sshd on each. Needs root.

Each host has sockets in /tmp of its own; folders in there are the same ones on all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Iterator, Sequence

import pytest

DEADLINE_SECONDS = 20
OWN_SOCKETS = """\
set -e
mkdir --parents /run/mxtrain-tmp
mount --bind /tmp /run/mxtrain-tmp
mount -t tmpfs -o mode=1777 tmpfs /tmp
for folder in /run/mxtrain-tmp/*/; do
    folder=/tmp/$(basename "$folder")
    mkdir "$folder"
    # One that another program has just deleted is nobody's any more.
    mount --bind "/run/mxtrain-tmp/${folder#/tmp/}" "$folder" || rmdir "$folder"
done
echo $$ > "$1.new"
mv "$1.new" "$1"
exec sleep infinity
"""
SSHD = """\
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
MaxStartups 100
"""
SSH = """\
IdentityFile {folder}/user_key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
StrictHostKeyChecking yes
LogLevel ERROR
"""


@dataclasses.dataclass(frozen=True)
class NamespaceHost:
    """A network namespace of this machine as a host, with an address and a cable to the others."""

    namespace: str
    address: str
    cable: str

    def inside(self, *command: str) -> list[str]:
        """The command that runs `command` on this host, in the folder in which it is started."""
        # `ip netns exec` would hide cgroups; who enters another mount namespace is in its root.
        enter = 'exec nsenter --net="$1" --mount="/proc/$(cat "$2")/ns/mnt" --wdns="$(pwd)" -- "${@:3}"'
        return ["bash", "-c", enter, "bash", f"/run/netns/{self.namespace}", str(self.root_file), *command]

    @property
    def root_file(self) -> Path:
        """The file with the number of the process whose file system is this host's."""
        return Path(f"/run/netns/{self.namespace}.root")

    def cut(self) -> None:
        """Pull the cable."""
        do(*self.inside("ip", "link", "set", self.cable, "down"))

    def heal(self) -> None:
        """Put the cable back."""
        do(*self.inside("ip", "link", "set", self.cable, "up"))

    def break_busiest_stream(self, address: str, port: int) -> None:
        """End the connection to this address and port that has carried most, and no other one, as a reset does."""
        to_port = self.inside(
            "ss", "-tniHO", "state", "established", "dst", address, "dport", "=", f":{port}"
        )
        listing = subprocess.run(to_port, capture_output=True, text=True, timeout=10).stdout.splitlines()

        def num_sent(line: str) -> int:
            return int(line.partition("bytes_sent:")[2].split()[0])

        _, _, source, target, *_ = max(listing, key=num_sent).split()
        do(*self.inside("ss", "--kill", "src", source, "dst", target))

    def processes(self) -> list[int]:
        done = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, timeout=10
        )
        return [int(word) for word in done.stdout.split()]


def need(*programs: str) -> None:
    """Skip the test if it cannot run here."""
    missing = [name for name in programs if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
    if os.geteuid() or missing:
        pytest.skip(f"needs root, and {', '.join(missing) or 'nothing else'}")


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[NamespaceHost, NamespaceHost]]:
    """A block with two hosts; processes that still run on them at its end are killed."""
    need("ip")
    number = os.getpid() % 10000
    hosts = (
        NamespaceHost(f"mxa{number}", "10.213.7.1", f"mxa{number}c"),
        NamespaceHost(f"mxb{number}", "10.213.7.2", f"mxb{number}c"),
    )
    with contextlib.ExitStack() as stack:
        for host in hosts:
            add(host)
            stack.callback(remove, host)
        do("ip", "link", "add", hosts[0].cable, "type", "veth", "peer", "name", hosts[1].cable)
        for host in hosts:
            _connect(host)
        yield hosts


@contextlib.contextmanager
def reached_by_ssh(hosts: Sequence[NamespaceHost], folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """The ssh command that knows the hosts, and the roots of their file systems.

    These are one and the same but for FOLDER/disk, which each host has for itself.
    """
    need("sshd", "ssh", "ssh-keygen", "unshare")
    (folder / "disk").mkdir()
    for name in ("host_key", "user_key"):
        do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{host.address} {key}" for host in hosts))
    (folder / "ssh_config").write_text(SSH.format(folder=folder))
    with contextlib.ExitStack() as stack:
        roots = [stack.enter_context(_sshd(host, folder)) for host in hosts]
        yield f"ssh -F {folder}/ssh_config", roots


def _connect(host: NamespaceHost) -> None:
    do("ip", "link", "set", host.cable, "netns", host.namespace)
    do(*host.inside("ip", "address", "add", f"{host.address}/24", "dev", host.cable))
    do(*host.inside("ip", "link", "set", host.cable, "up"))
    do(*host.inside("ip", "link", "set", "lo", "up"))


@contextlib.contextmanager
def _sshd(host: NamespaceHost, folder: Path) -> Iterator[Path]:
    config = folder / f"sshd_{host.namespace}"
    config.write_text(SSHD.format(address=host.address, folder=folder))
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd separates privileges; a service makes it at boot
    begin = f"mount -t tmpfs tmpfs {folder}/disk && exec $(command -v sshd) -D -e -f {config}"
    with (folder / f"{host.namespace}.log").open("wb") as log:
        daemon = subprocess.Popen(host.inside("unshare", "--mount", "sh", "-c", begin), stderr=log)
    try:
        _wait_for_port(host)
        yield Path(f"/proc/{daemon.pid}/root")
    finally:
        daemon.kill()
        daemon.wait()


def _wait_for_port(host: NamespaceHost) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    probe = host.inside("bash", "-c", f"exec 3<>/dev/tcp/{host.address}/22")
    while subprocess.run(probe, capture_output=True, timeout=10).returncode:
        assert time.monotonic() < end, f"no sshd on {host.address}"
        time.sleep(0.05)


def add(host: NamespaceHost) -> None:
    """Make a host that is connected to nothing."""
    do("ip", "netns", "add", host.namespace)
    start = ["unshare", "--mount", "bash", "-c", OWN_SOCKETS, "bash", str(host.root_file)]
    subprocess.Popen(start, start_new_session=True)
    end = time.monotonic() + DEADLINE_SECONDS
    while not host.root_file.exists():
        assert time.monotonic() < end, f"no file system for {host.namespace}"
        time.sleep(0.01)


def remove(host: NamespaceHost) -> None:
    for pid in host.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    subprocess.run(["ip", "netns", "delete", host.namespace], timeout=10)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(host.root_file.read_text()), 9)
    host.root_file.unlink()


def do(*command: str) -> None:
    subprocess.run(command, check=True, timeout=10)
