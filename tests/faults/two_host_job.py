"""A job over two hosts of namespaces, started role by role as on hosts without a launcher of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Sequence

from mxtrain.launch.local import free_port
from tests.faults.job import FLAGS, cluster
from tests.faults.samples import ROOT
from tests.faults.traces import Traces
from tests.support.hosts.two_hosts import NamespaceHost

SECRET = "one of sixteen letters or more"


class TwoHostJob:
    """A job of a kind of `KINDS` over two hosts: each role with a supervisor, the second worker on the second host.

    It has one server, on the host at `server_place`, or none.
    """

    def __init__(
        self,
        hosts: Sequence[NamespaceHost],
        folder: Path,
        *flags: str,
        num_servers: int = 1,
        server_place: int = 0,
        kind: str = "dist_sync",
    ):
        self.out, self.traces, self._folder = folder / "run", Traces(folder), folder
        first, second = self.hosts = hosts[:2]
        self._num_servers, self._kind = num_servers, kind
        places = {"scheduler": first, "worker-0": first, "worker-1": second}
        places.update({"server": self.hosts[server_place]} if num_servers else {})
        self.port = free_port()
        root = f"{first.address}:{self.port}"
        self.processes = {name: self._start(host, name, root, flags) for name, host in places.items()}

    def _start(
        self, host: NamespaceHost, name: str, root: str, flags: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        role, _, index = name.partition("-")
        line = [sys.executable, "-m", "mxtrain.launch", role, "--root", root, "-n", "2"]
        line += ["-s", "1"] if self._num_servers else []
        line += ["--index", index] if index else []
        line += ["--", "--out", str(self.out), *FLAGS, *cluster(2, self._num_servers, self._kind), *flags]
        with (self._folder / f"{name}.output").open("wb") as output:
            return subprocess.Popen(
                host.inside(*line),
                cwd=ROOT,
                env={**self.traces.environment, "MXTRAIN_SECRET": SECRET},
                stdout=subprocess.DEVNULL,
                stderr=output,
            )

    def codes(self) -> dict[str, int | None]:
        return {name: process.poll() for name, process in self.processes.items()}

    def have_ended(self) -> bool:
        return None not in self.codes().values()

    def gateway(self, host: NamespaceHost) -> int:
        """The process of this host's gateway."""
        (found,) = [
            pid
            for pid in host.processes()
            if b"mxtrain.cluster.gateway.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        return found

    def output(self) -> dict[str, str]:
        return {name: (self._folder / f"{name}.output").read_text() for name in self.processes}

    def kill(self) -> None:
        self.traces.kill()
        for process in self.processes.values():
            process.wait(10)
