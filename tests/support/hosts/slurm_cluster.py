"""A real Slurm of two nodes on this machine: a controller, a slurmd in each of two network namespaces, and munge."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import time
from pathlib import Path
from typing import Iterator

from tests.support.hosts.two_hosts import DEADLINE_SECONDS, NamespaceHost, need, two_hosts

CONFIG = """\
ClusterName=test
SlurmctldHost={hostname}({a})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=10
SchedulerParameters=sched_interval=2,bf_interval=2
NodeName=na NodeHostname={hostname} NodeAddr={a} Port=17001 CPUs=2 State=UNKNOWN
NodeName=nb NodeHostname={hostname} NodeAddr={b} Port=17002 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=na,nb Default=YES MaxTime=INFINITE State=UP
"""


@dataclasses.dataclass(frozen=True)
class Slurm:
    hosts: tuple[NamespaceHost, NamespaceHost]
    environment: dict[str, str]

    def do(self, *command: str) -> str:
        line = self.hosts[0].inside(*command)
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    need("slurmctld", "slurmd", "sbatch", "munged")
    for name in ("state", "spool/na", "spool/nb"):
        (folder / name).mkdir(parents=True)
    os.chmod(folder, 0o755)
    with two_hosts() as hosts, _munge(folder):
        config = folder / "slurm.conf"
        hostname = os.uname().nodename.split(".")[0]
        config.write_text(
            CONFIG.format(folder=folder, hostname=hostname, a=hosts[0].address, b=hosts[1].address)
        )
        environment = {**os.environ, "SLURM_CONF": str(config)}
        daemons = [
            (hosts[0], ["/usr/sbin/slurmctld", "-D"]),
            (hosts[0], ["/usr/sbin/slurmd", "-D", "-N", "na"]),
            (hosts[1], ["/usr/sbin/slurmd", "-D", "-N", "nb"]),
        ]
        with contextlib.ExitStack() as stack:
            for host, command in daemons:
                stack.enter_context(_daemon(host.inside(*command), environment))
            made = Slurm(hosts, environment)
            _wait_for_nodes(made)
            yield made


@contextlib.contextmanager
def _munge(folder: Path) -> Iterator[None]:
    """A munge daemon with a key of its own."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
    with _daemon(
        ["/usr/sbin/munged", "-F", "--force", f"--socket={folder}/munge.socket", *files], dict(os.environ)
    ):
        yield


@contextlib.contextmanager
def _daemon(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    daemon = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()


def _wait_for_nodes(made: Slurm) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        with contextlib.suppress(AssertionError):
            if made.do("sinfo", "--noheader", "--format=%T %D").split() == ["idle", "2"]:
                return
        assert time.monotonic() < end, "Slurm's nodes are not there"
        time.sleep(0.5)
