"""This process's place in its cluster, read from the DMLC_* and MXTRAIN_* variables and checked before mxnet loads.

Owns the variables' allowed values and the addresses that names in them resolve to; MXNet itself answers a wrong value
with a silent hang. Does not own the variables that ps-lite reads (`ps_lite.py`) nor the flags
(`config/checks/run_checks.py`).
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
from pathlib import Path
from typing import Mapping, NamedTuple

from mxtrain.config import Run
from mxtrain.config.components import stores
from mxtrain.core import interrupts
from mxtrain.core.errors import RestartMe, Stop, UsageError, nearest

logger = logging.getLogger(__name__)

ROLES = ("scheduler", "server", "worker")
REQUIRED = ("DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")
LOOPBACK = "127.0.0.1"
RETRY_SECONDS = 0.5
MEMORY = ".job"  # in a run folder
LEAST_SECRET = 16  # characters
SIOCGIFADDR = 0x8915  # Linux: the address of an interface


class RootNames(NamedTuple):
    """Names under which the user gave the scheduler's address and port: these variables, or a launcher's flag."""

    address: str = "DMLC_PS_ROOT_URI"
    port: str = "DMLC_PS_ROOT_PORT"

    def __str__(self) -> str:
        return self.address if self.address == self.port else f"{self.address} and {self.port}"


ROOT_VARIABLES = RootNames()


@dataclasses.dataclass(frozen=True)
class NodeSpec:
    """The place of one process in its job."""

    role: str
    root: str  # numeric address of the scheduler
    port: int
    num_workers: int
    num_servers: int
    node_host: str  # numeric address that this process binds, and at which others reach it
    name: str  # "worker-1", or "worker" if the launcher gave no index
    token: str  # shared by the processes of this job only
    attempt: int  # number of restarts of the whole job so far
    is_restart: bool = False  # this is not the job's first attempt
    job: str = ""  # identifies the job in its checkpoints; no secret
    secret: str = ""  # by which gateways know the job; empty on one host, which has none
    root_names: RootNames = ROOT_VARIABLES
    memory: Path | None = None  # where it keeps which job it is in; None if the token is the job's own

    def with_counts(self, run: Run) -> Run:
        """Return `run` with this cluster's numbers of workers and servers, whichever way these were given."""
        num_servers = (
            self.num_servers or run.layout.num_servers
        )  # of a store without any the flag means nothing
        layout = dataclasses.replace(run.layout, num_workers=self.num_workers, num_servers=num_servers)
        return dataclasses.replace(run, layout=layout)


def node_spec(environ: Mapping[str, str], run: Run) -> NodeSpec | None:
    """Return this process's place as `environ` describes it; None if no DMLC_* variable does.

    Raises UsageError for a variable that is missing, impossible or in contradiction to a flag of `run`.
    """
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
    store = run.layout.kvstore
    has_servers = stores.has_servers(store) or not stores.is_cluster(store)
    num_servers = _number(environ, "DMLC_NUM_SERVER", int(has_servers), 1 << 20 if has_servers else 0)
    _compare("--num-workers", run.layout.num_workers, "DMLC_NUM_WORKER", num_workers)
    if has_servers:
        _compare("--num-servers", run.layout.num_servers, "DMLC_NUM_SERVER", num_servers)
    elif role == "server":
        raise UsageError(f"DMLC_ROLE=server: --kvstore {store} has no servers; start none")
    attempt = _number(environ, "MXTRAIN_GENERATION", 0, default="0")
    # If each host restarts its own processes, their attempts have no common number.
    is_restart = attempt > 0 or _number(environ, "MXTRAIN_RESTARTS", 0, default="0") > 0
    seconds = run.layout.start_timeout
    root_names = _root_names(environ)
    root = _resolve(environ, "DMLC_PS_ROOT_URI", seconds, is_restart, root_names.address)
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
        attempt=attempt,
        is_restart=is_restart,
        secret="" if is_loopback(root) else _secret(environ),
        job=environ.get("MXTRAIN_JOB_ID") or hashlib.sha256(token.encode()).hexdigest()[:16],
        root_names=root_names,
        memory=None if environ.get("MXTRAIN_JOB") else Path(run.output.out) / MEMORY,
    )


def workers_on_host(environ: Mapping[str, str], run: Run) -> int:
    """Return the number of workers on this host, as far as is known before the rendezvous.

    All of them behind a loopback address, else 1.
    """
    root = environ.get("DMLC_PS_ROOT_URI", "")
    return run.layout.num_workers if root == "localhost" or root.startswith("127.") else 1


def is_node_name(name: str, role: str) -> bool:
    """Return whether `name` is "ROLE" or "ROLE-INDEX"."""
    return role in ROLES and re.fullmatch(role + r"(-\d{1,6})?", name, re.ASCII) is not None


def is_loopback(address: str) -> bool:
    """Return whether this numeric address never leaves the host."""
    return ipaddress.ip_address(address).is_loopback


def _number(
    environ: Mapping[str, str], name: str, least: int, most: int = 1 << 20, default: str | None = None
) -> int:
    text = environ[name] if default is None else environ.get(name) or default
    if not (text.isdecimal() and text.isascii() and least <= int(text[:9]) <= most and len(text) < 9):
        raise UsageError(f"{name}={text}: give a whole number from {least} to {most}")
    return int(text)


def _compare(flag: str, flag_count: int, variable: str, count: int) -> None:
    """Refuse a flag that contradicts its variable; 1 is also the flag's default, so it contradicts nothing."""
    if flag_count not in (1, count):
        raise UsageError(
            f"{flag} {flag_count} contradicts {variable}={count}; leave {flag} out or give {count}"
        )


def _name(environ: Mapping[str, str], role: str) -> str:
    name = environ.get("MXTRAIN_NODE") or role
    if not is_node_name(name, role):
        raise UsageError(f"MXTRAIN_NODE={name}: the name of a {role} is {role}-0, {role}-1 and so on")
    return name


def _token_of(root: str, port: int, num_workers: int, num_servers: int) -> str:
    """Return a substitute for a secret: a hash of what at least the processes of this job agree on."""
    return hashlib.sha256(f"{root}:{port} {num_workers} {num_servers}".encode()).hexdigest()


def _secret(environ: Mapping[str, str]) -> str:
    """Return the text by which hosts of this job know each other."""
    cure = "give all processes of the job the same text, such as `openssl rand -hex 16` prints"
    for variable in ("MXTRAIN_SECRET", "MXTRAIN_JOB"):
        secret = environ.get(variable, "")
        if len(secret) >= LEAST_SECRET:
            return secret
        if secret:
            raise UsageError(f"{variable}: {len(secret)} characters can be guessed; {cure}")
    raise UsageError(f"MXTRAIN_SECRET is not set, without which no host lets another one in; {cure}")


def _root_names(environ: Mapping[str, str]) -> RootNames:
    """`--root` of launch/ps.sh gives address and port, `--port` of launch/ssh the port alone."""
    flag, default = environ.get("MXTRAIN_ROOT_FLAG", ""), ROOT_VARIABLES
    return RootNames(flag if flag == "--root" else default.address, flag or default.port)


def _resolve(
    environ: Mapping[str, str], variable: str, seconds: float, is_restart: bool, flag: str = ""
) -> str:
    """Return the IPv4 address that a variable names; on Kubernetes a name resolves only once its pod runs."""
    name, deadline, has_warned = environ[variable], time.monotonic() + seconds, False
    described = f"{flag} {name}" if flag.startswith("--") else f"{variable}={name}"
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
            raise _unreachable(is_restart)(
                f"{described}: no IPv4 address ({problem}); give one, as in 10.0.0.5"
            )
        if not has_warned:
            logger.warning("%s has no address yet (%s); trying for %g s", described, problem, seconds)
            has_warned = True
        interrupts.exit_if_deferred("mxtrain.fit")
        time.sleep(min(seconds, RETRY_SECONDS))


def _unreachable(is_restart: bool) -> type[Stop]:
    """Return the error for an unreachable scheduler: of an earlier attempt's it may come back, else it is a mistake."""
    return RestartMe if is_restart else UsageError


def _node_host(environ: Mapping[str, str], root: str, port: int, seconds: float, is_restart: bool) -> str:
    if is_loopback(root):
        return LOOPBACK
    host = environ.get("DMLC_NODE_HOST")
    if host:
        address = _resolve(environ, "DMLC_NODE_HOST", seconds, is_restart)
        # Debian resolves a host's own name to 127.0.1.1, which no other host reaches.
        if address == host or not is_loopback(address):
            return address
    elif environ.get("DMLC_INTERFACE"):
        return _address_of_interface(environ["DMLC_INTERFACE"])
    deadline = time.monotonic() + (seconds if is_restart else 0)  # a network that was cut may come back
    while True:
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
            try:
                probe.connect((root, port))  # sends nothing, only looks up the route
                return str(probe.getsockname()[0])
            except OSError as error:
                problem = error.strerror
        if time.monotonic() > deadline:
            raise _unreachable(is_restart)(
                f"{_root_names(environ).address} {environ['DMLC_PS_ROOT_URI']}: no route to it ({problem}); "
                "check the address and this host's network"
            )
        interrupts.exit_if_deferred("mxtrain.fit")
        time.sleep(RETRY_SECONDS)


def _address_of_interface(interface: str) -> str:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        except OSError as error:
            known = ", ".join(name for _, name in socket.if_nameindex())
            raise UsageError(f"DMLC_INTERFACE={interface}: {error.strerror}; this host has {known}") from None
    return socket.inet_ntoa(answer[20:24])
