"""Which part of which cluster this process is: the DMLC_* environment, read and judged before mxnet loads.

Owns the variables: what they may hold, the addresses that names in them mean, and what ps-lite finds in their
place. MXNet itself answers a wrong one with a silent hang.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import ipaddress
import logging
import re
import socket
import struct
import time
from typing import TYPE_CHECKING, Mapping, NamedTuple

from mxtrain.config import Run
from mxtrain.core import interrupts
from mxtrain.core.errors import RestartMe, Stop, UsageError, nearest

if TYPE_CHECKING:
    from mxtrain.cluster.rendezvous import Assignment

logger = logging.getLogger(__name__)

ROLES = ("scheduler", "server", "worker")
REQUIRED = ("DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")
LOOPBACK = "127.0.0.1"
AGAIN_SECONDS = 0.5
SIOCGIFADDR = 0x8915  # Linux: the address of an interface


class GivenAs(NamedTuple):
    """By what name the user knows where the scheduler is: these variables, or a launcher's flag in their place."""

    address: str = "DMLC_PS_ROOT_URI"
    port: str = "DMLC_PS_ROOT_PORT"

    def __str__(self) -> str:
        return self.address if self.address == self.port else f"{self.address} and {self.port}"


BY_VARIABLES = GivenAs()


@dataclasses.dataclass(frozen=True)
class NodeSpec:
    """One process's place in its job."""

    role: str
    root: str  # numeric address of the scheduler
    port: int
    num_workers: int
    num_servers: int
    node_host: str  # numeric address that this process binds, and by which others reach it
    name: str  # "worker-1", or "worker" where nobody gave it a slot
    token: str
    generation: int
    is_restart: bool = False  # this is not its job's first life
    job: str = ""  # what the job's checkpoints are known by; no secret
    given_as: GivenAs = BY_VARIABLES

    def place(self, run: Run) -> Run:
        """The run with this cluster's counts, whoever gave them."""
        layout = dataclasses.replace(run.layout, num_workers=self.num_workers, num_servers=self.num_servers)
        return dataclasses.replace(run, layout=layout)


def of_environment(environ: Mapping[str, str], run: Run) -> NodeSpec | None:
    """This process's place; None where no DMLC_* variable gives it one."""
    missing = [name for name in REQUIRED if not environ.get(name)]
    if len(missing) == len(REQUIRED):
        return None
    if missing:
        raise UsageError(
            f"{missing[0]} is not set, though {next(name for name in REQUIRED if name not in missing)} is; "
            "a process of a cluster needs " + ", ".join(REQUIRED)
        )
    role = environ["DMLC_ROLE"]
    if role not in ROLES:
        raise UsageError(f"DMLC_ROLE={role}: give one of {', '.join(ROLES)}{nearest(role, ROLES)}")
    port = _number(environ, "DMLC_PS_ROOT_PORT", 1, 65535)
    num_workers = _number(environ, "DMLC_NUM_WORKER", 1)
    num_servers = _number(environ, "DMLC_NUM_SERVER", 1)
    _compare("--num-workers", run.layout.num_workers, "DMLC_NUM_WORKER", num_workers)
    _compare("--num-servers", run.layout.num_servers, "DMLC_NUM_SERVER", num_servers)
    if run.layout.min_workers > num_workers:
        raise UsageError(
            f"--min-workers {run.layout.min_workers} is above DMLC_NUM_WORKER={num_workers}; lower it"
        )
    generation = _number(environ, "MXTRAIN_GENERATION", 0, default="0")
    # Where each host starts its own processes again, their lives have no common number.
    is_restart = generation > 0 or _number(environ, "MXTRAIN_RESTARTS", 0, default="0") > 0
    seconds = run.layout.start_timeout
    given_as = _given_as(environ)
    root = _resolve(environ, "DMLC_PS_ROOT_URI", seconds, is_restart, given_as.address)
    token = environ.get("MXTRAIN_JOB") or _token_of(root, port, num_workers, num_servers)
    return NodeSpec(
        role=role,
        root=root,
        port=port,
        num_workers=num_workers,
        num_servers=num_servers,
        node_host=_node_host(environ, root, port, seconds, is_restart),
        name=_name(environ, role),
        token=token,
        generation=generation,
        is_restart=is_restart,
        job=environ.get("MXTRAIN_JOB_ID") or hashlib.sha256(token.encode()).hexdigest()[:16],
        given_as=given_as,
    )


def workers_here(environ: Mapping[str, str], run: Run) -> int:
    """How many workers share this host, as far as that can be told before the roll call: behind a loopback, all."""
    root = environ.get("DMLC_PS_ROOT_URI", "")
    return run.layout.num_workers if root == "localhost" or root.startswith("127.") else 1


def engine_environment(cluster: NodeSpec, go: Assignment, number: int | None = None) -> dict[str, str | None]:
    """What ps-lite must find in os.environ; None stands for a variable that must be gone.

    `number` names this process's unix socket, where these are what its processes meet at.
    """
    return {
        "DMLC_ROLE": cluster.role,
        "DMLC_PS_ROOT_URI": cluster.root,
        "DMLC_PS_ROOT_PORT": str(go.engine_port),
        "DMLC_NUM_WORKER": str(go.num_workers),
        "DMLC_NUM_SERVER": str(go.num_servers),
        "DMLC_NODE_HOST": cluster.node_host,
        # With these ps-lite would bind elsewhere, or have an opinion of its own about who is alive.
        "DMLC_INTERFACE": None,
        "PORT": None if number is None else str(number),
        "DMLC_LOCAL": None if number is None else "1",
        "PS_HEARTBEAT_INTERVAL": None,
        "PS_HEARTBEAT_TIMEOUT": None,
    }


def is_name(name: str, role: str) -> bool:
    return role in ROLES and re.fullmatch(role + r"(-\d{1,6})?", name, re.ASCII) is not None


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _number(
    environ: Mapping[str, str], name: str, least: int, most: int = 1 << 20, default: str | None = None
) -> int:
    text = environ[name] if default is None else environ.get(name) or default
    if not (text.isdecimal() and text.isascii() and least <= int(text[:9]) <= most and len(text) < 9):
        raise UsageError(f"{name}={text}: give a whole number from {least} to {most}")
    return int(text)


def _compare(flag: str, given: int, variable: str, count: int) -> None:
    """A flag that was left out is 1, which says nothing."""
    if given not in (1, count):
        raise UsageError(f"{flag} {given} contradicts {variable}={count}; leave {flag} out or give {count}")


def _name(environ: Mapping[str, str], role: str) -> str:
    name = environ.get("MXTRAIN_NODE") or role
    if not is_name(name, role):
        raise UsageError(f"MXTRAIN_NODE={name}: the name of a {role} is {role}-0, {role}-1 and so on")
    return name


def _token_of(root: str, port: int, num_workers: int, num_servers: int) -> str:
    """Where nobody made a secret: what at least only this job's processes agree on."""
    return hashlib.sha256(f"{root}:{port} {num_workers} {num_servers}".encode()).hexdigest()


def _given_as(environ: Mapping[str, str]) -> GivenAs:
    """`--root` of launch/ps.sh is both, `--port` of launch/ssh the port alone."""
    flag, default = environ.get("MXTRAIN_ROOT_FLAG", ""), BY_VARIABLES
    return GivenAs(flag if flag == "--root" else default.address, flag or default.port)


def _resolve(
    environ: Mapping[str, str], variable: str, seconds: float, is_restart: bool, given_as: str = ""
) -> str:
    """The IPv4 address that a variable names; on Kubernetes a name appears only with its pod."""
    name, deadline, told = environ[variable], time.monotonic() + seconds, False
    described = f"{given_as} {name}" if given_as.startswith("--") else f"{variable}={name}"
    while True:
        try:
            address = str(socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        except (OSError, UnicodeError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        else:
            if ipaddress.ip_address(address).is_unspecified:
                raise UsageError(f"{described}: stands for every address; give one, as in 10.0.0.5")
            return address
        if time.monotonic() > deadline:
            raise _gone(is_restart)(f"{described}: no IPv4 address ({problem}); give one, as in 10.0.0.5")
        if not told:
            logger.warning("%s has no address yet (%s); trying for %g s", described, problem, seconds)
            told = True
        interrupts.exit_if_deferred("mxtrain.fit")
        time.sleep(min(seconds, AGAIN_SECONDS))


def _gone(is_restart: bool) -> type[Stop]:
    """What was there in an earlier life may come back for a later one; what never was is a mistake."""
    return RestartMe if is_restart else UsageError


def _node_host(environ: Mapping[str, str], root: str, port: int, seconds: float, is_restart: bool) -> str:
    if is_loopback(root):
        return LOOPBACK
    given = environ.get("DMLC_NODE_HOST")
    if given:
        address = _resolve(environ, "DMLC_NODE_HOST", seconds, is_restart)
        # Debian gives a host's own name to 127.0.1.1, which nobody else reaches.
        if address == given or not is_loopback(address):
            return address
    elif environ.get("DMLC_INTERFACE"):
        return _address_of_interface(environ["DMLC_INTERFACE"])
    deadline = time.monotonic() + (seconds if is_restart else 0)  # a cut network comes back
    while True:
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
            try:
                probe.connect((root, port))  # sends nothing: it asks for the route
                return str(probe.getsockname()[0])
            except OSError as error:
                problem = error.strerror
        if time.monotonic() > deadline:
            raise _gone(is_restart)(
                f"{_given_as(environ).address} {environ['DMLC_PS_ROOT_URI']}: no route to it ({problem}); "
                "check the address and this host's network"
            )
        interrupts.exit_if_deferred("mxtrain.fit")
        time.sleep(AGAIN_SECONDS)


def _address_of_interface(interface: str) -> str:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise UsageError(f"DMLC_INTERFACE={interface}: {error.strerror}; this host has {known}") from None
    return socket.inet_ntoa(answer[20:24])
