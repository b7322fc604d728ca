"""One host's part of a cluster's examination: `python -m mxtrain.doctor.cluster.host_probe`, over ssh or by Slurm.

Reads requests from standard input, a JSON object a line, and answers each with a line that begins with PREFIX, so that
what a login shell prints is told apart. Ends where standard input does, and after LIFE_SECONDS anyway. It imports no
mxnet. Owns what is asked of a host; `cluster_hosts.py` asks.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Mapping

PREFIX = "mxtrain-probe "
LIFE_SECONDS = 600
FIREWALLS = {
    "firewalld": ["firewall-cmd", "--state"],
    "ufw": ["ufw", "status"],
    "nftables": ["nft", "list", "ruleset"],
    "iptables": ["iptables", "-S"],
}
MARK = ".mxtrain-probe-"


def main() -> int:
    """Answer requests until there are no more."""
    signal.alarm(LIFE_SECONDS)  # whatever hangs, this ends
    state: dict[str, Any] = {}
    try:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = ANSWERS[request["do"]](request, state)
            except Exception as error:  # one question without an answer; the others have theirs
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(PREFIX + json.dumps(answer), flush=True)
    finally:
        unmark({}, state)
    return 0


def clock(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return what this host's clock says."""
    return {"time": time.time()}


def facts(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return versions, the processor and the kernels chosen for it, memory, GPUs and what may be a firewall."""
    from mxtrain.checkpoint import numeric_environment
    from mxtrain.core.system import gpus, machine, wheels

    return {
        "name": socket.gethostname(),
        # Where ssh has connected to: its own word for a host may be none that others know.
        "address": (os.environ.get("SSH_CONNECTION", "").split() + [""] * 3)[2],
        "versions": {"python": platform.python_version(), **wheels.versions()},
        "system": f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}",
        "cpu": machine.cpu()["name"],
        "instructions": machine.cpu()["instructions"],
        "cores": machine.usable_cores(),
        "threads": machine.threads_of_variable(),
        "kernels": numeric_environment.kernels_used(),
        "memory_bytes": machine.available_memory(),
        "gpus": [device["name"] for device in gpus.detect()["devices"]],
        "firewalls": firewalls(),
    }


def firewalls() -> list[str]:
    """Return the firewalls that are installed and, as far as may be seen, in use here."""
    active = []
    for name, line in FIREWALLS.items():
        path = shutil.which(line[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if path is None:
            continue
        try:
            done = subprocess.run(
                [path, *line[1:]], capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        output = done.stdout + done.stderr
        idle = not output.strip() or "inactive" in output or "not running" in output
        if done.returncode == 0 and not idle:
            active.append(name)
        elif done.returncode and not idle:
            active.append(f"{name} (its rules are root's to see)")
    return active


def disk(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the space and rates of the disk of a folder, and leave a mark there by which other hosts know it."""
    from mxtrain.doctor.machine import disk_writes

    found = disk_writes.of_folder(request["folder"])
    folder = Path(request["folder"])
    if folder.is_dir() and not found["error"]:
        state["mark"] = folder / f"{MARK}{request['mark']}-{request['number']}"
        try:
            state["mark"].touch()
        except OSError as error:
            found["error"] = error.strerror
    return found


def marks(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of the hosts whose marks are in the folder."""
    begin = f"{MARK}{request['mark']}-"
    names = (path.name for path in Path(request["folder"]).glob(f"{begin}*"))
    return {"marks": sorted(int(name[len(begin) :]) for name in names)}


def unmark(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Remove this host's mark."""
    if "mark" in state:
        state.pop("mark").unlink(missing_ok=True)
    return {}


def listen(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Open ports at the address by which others know this host."""
    from mxtrain.doctor.cluster.tcp_probe import Listener

    state["listener"] = Listener(request["address"], request["ports"], request["token"])
    return {"ports": state["listener"].ports, "errors": state["listener"].errors}


def connect(request: Mapping[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Try the open ports of another host, and measure the way there by one that works.

    `problems` are of the ports that are not reached.
    """
    from mxtrain.doctor.cluster import tcp_probe

    address, ports, token = (request[name] for name in ("address", "ports", "token"))
    with ThreadPoolExecutor(len(ports)) as pool:
        tried = list(pool.map(lambda port: tcp_probe.measure(address, port, token, 0), ports))
    problems = {port: found["problem"] for port, found in zip(ports, tried) if "problem" in found}
    works = next((port for port in reversed(ports) if port not in problems), None)
    found = {} if works is None else tcp_probe.measure(address, works, token, request["rate_seconds"])
    return {**found, "problems": problems}


Answer = Callable[[Mapping[str, Any], "dict[str, Any]"], "dict[str, Any]"]
ANSWERS: Mapping[str, Answer] = {
    each.__name__: each for each in (clock, facts, disk, marks, unmark, listen, connect)
}


if __name__ == "__main__":
    raise SystemExit(main())
