"""Rendezvous: admission of processes, comparison of their descriptions of the run, and the order of workers.

Owns the rules, as functions of the NodeInfo that each process sends; does not own sockets and clocks
(`coordinator.py`), ranks (`assignment.py`) nor the choice of a checkpoint (`resume_step.py`).
"""

from __future__ import annotations

import dataclasses
import hmac
import os
import platform
import re
from pathlib import Path
from typing import Any, Iterable, Sequence

from mxtrain.cluster import unix_sockets
from mxtrain.cluster.environment import ROLES, NodeSpec, is_node_name
from mxtrain.cluster.verdicts import Verdict
from mxtrain.config.components import stores
from mxtrain.core.errors import RESTART_ME, USAGE, UsageError
from mxtrain.core.system import kernels, machine

CURES = {
    "versions": "install the same everywhere",
    "config": "give all the same flags",
    "data": "give all the same data",
}
# Where the value that differs is not what was given.
CURES_OF_FLAGS = {
    "amp_table": "these are hashes of its times: give all one file, or unlike CPUs one DNNL_MAX_CPU_ISA or --amp off"
}


@dataclasses.dataclass(frozen=True)
class NodeInfo:
    """A process as it describes itself to the scheduler.

    Servers and the scheduler may leave all but the first five fields empty.
    """

    role: str
    node: str
    host: str
    boot_id: str
    pid: int
    versions: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: dict[str, Any] = dataclasses.field(default_factory=dict)  # flags that must be equal
    data: dict[str, Any] = dataclasses.field(default_factory=dict)  # fingerprints that must be equal
    folder: str = ""  # identifies the run folder's disk; equal on a shared disk
    checkpoints: tuple[int, ...] = ()  # steps of the complete ones
    savers: tuple[str, ...] = ()  # the job that wrote each of them
    threads: int = 0  # of OpenMP, that a flag or a variable asks for; 0: its share of the `cores`
    cores: int = 0
    kernels: dict[str, str] = dataclasses.field(default_factory=dict)  # of a worker's CPU
    socket_namespace: str = ""  # equal for processes that can use the same unix sockets
    failed: tuple[Any, ...] = ()  # exit code and reason, if it joins only to report its failure
    gateway: tuple[Any, ...] = ()  # address and port that it has for its host's gateway; none on one host

    def __str__(self) -> str:
        return f"{self.node} ({self.host}, pid {self.pid})"


def describe(node: NodeSpec, fields: dict[str, Any]) -> NodeInfo:
    """Return the description of this process; `fields` are those of NodeInfo beside its name and host."""
    identity = {
        "role": node.role,
        "node": node.name,
        "host": platform.node(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": os.getpid(),
        # Containers may share a host and its boot, but not its network.
        "socket_namespace": _socket_namespace(node),
    }
    return parse_node_info({**identity, **fields})


def _socket_namespace(node: NodeSpec) -> str:
    found = unix_sockets.namespace(os.environ)
    if node.secret and not found:
        raise UsageError(
            f"{unix_sockets.FOLDER}: no socket can be made there, or DMLC_LOCAL=0 forbids it, and processes of several "
            "hosts reach each other by sockets there alone; let this user write there, and leave DMLC_LOCAL out"
        )
    return found


def join_message(node: NodeSpec, info: NodeInfo) -> dict[str, Any]:
    """Return the first message on a control channel."""
    return {
        "kind": "join",
        "token": node.token,
        "attempt": node.attempt,
        "counts": [node.num_workers, node.num_servers],
        "is_restart": node.is_restart,
        "node_info": dataclasses.asdict(info),
    }


def parse_node_info(content: Any) -> NodeInfo:
    """Return the NodeInfo that a message holds; ValueError if it is none."""
    try:
        lists = {
            name: tuple(content.get(name, ())) for name in ("checkpoints", "savers", "failed", "gateway")
        }
        info = NodeInfo(**{**content, **lists})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a node's description: {error}") from None
    for field in dataclasses.fields(NodeInfo):
        field_type = {"int": int, "str": str, "tup": tuple, "dic": dict}[str(field.type)[:3]]
        if type(getattr(info, field.name)) is not field_type:
            raise ValueError(f"a node's {field.name} of the wrong type")
    if not is_node_name(info.node, info.role) or not (info.host.isprintable() and len(info.host) < 256):
        raise ValueError("a node without a valid name or host")
    if not all(type(step) is int and step >= 0 for step in info.checkpoints):
        raise ValueError("a node's checkpoints that are no steps")
    if not all(type(job) is str for job in info.savers):
        raise ValueError("a node's savers that are no jobs")
    if info.gateway and [type(each) for each in info.gateway] != [str, int]:
        raise ValueError("a node's gateway without address and port")
    if info.failed and [type(each) for each in info.failed] != [int, str]:
        raise ValueError("a node's failure without code and reason")
    return info


def refusal(
    message: dict[str, Any], info: NodeInfo, node: NodeSpec, members: Sequence[NodeInfo]
) -> Verdict | None:
    """Return why the process that sent this join message must leave, though others may stay; None to admit it.

    `node` is the scheduler's own place, `members` are the processes admitted before.
    """
    counts, theirs = [node.num_workers, node.num_servers], message.get("counts")
    if not isinstance(theirs, list) or [type(count) for count in theirs] != [int, int]:
        raise ValueError("counts that are no two numbers")
    # A restarted process may find another job's scheduler at its port for a while, without anybody's mistake.
    mismatch = RESTART_ME if message.get("is_restart") is True else USAGE
    if theirs != counts:
        differs = f"is configured for {theirs} workers and servers, the scheduler of {counts}"
        return Verdict(mismatch, f"{info} {differs}; give all the same DMLC_NUM_WORKER and DMLC_NUM_SERVER")
    if not hmac.compare_digest(str(message.get("token")).encode(), node.token.encode()):
        where = f"{node.root}:{node.port}"
        return Verdict(
            mismatch, f"{info} is of another job than the scheduler at {where}; give each job its own port"
        )
    if message.get("attempt") != node.attempt:
        attempts = f"attempt {message.get('attempt')} of the job, the scheduler of attempt {node.attempt}"
        return Verdict(RESTART_ME, f"{info} is of {attempts}; what is left of the older one has to go")
    other_root = f"if it is of another job, give that another {node.root_names}" if node.memory else ""
    twin = next((other for other in members if other.node == info.node and info.node != info.role), None)
    if twin is not None:
        second = f"{info} comes as a second {info.node}; {twin} is here already"
        return Verdict(RESTART_ME, f"{second}; {other_root}" if other_root else second)
    if len(of_role(members, info.role)) >= num_expected(node, info.role):
        here = ", ".join(str(other) for other in of_role(members, info.role))
        more = f"{info} is one too many, {here} came before; start one {info.role} less"
        return Verdict(USAGE, f"{more}, or, {other_root}" if other_root else more)
    return None


def has_owners(infos: Sequence[NodeInfo]) -> bool:
    """Return whether servers own the weights of this job, by its workers' flags: other roles need none."""
    flags = next((info.config for info in infos if info.role == "worker"), {})
    return stores.has_owners(str(flags.get("kvstore")), str(flags.get("update")))


def num_expected(node: NodeSpec, role: str) -> int:
    """Return how many processes of a role the job has."""
    return {"scheduler": 1, "server": node.num_servers, "worker": node.num_workers}[role]


def of_role(infos: Iterable[NodeInfo], role: str) -> list[NodeInfo]:
    """Return the processes of a role."""
    return [info for info in infos if info.role == role]


def missing(node: NodeSpec, infos: Sequence[NodeInfo]) -> list[str]:
    """Return the names of the processes that have not come, or their number if those that came have no index."""
    names: list[str] = []
    for role in ROLES:
        expected = num_expected(node, role)
        num_missing = expected - len(of_role(infos, role))
        indexed = [role] if role == "scheduler" else [f"{role}-{index}" for index in range(expected)]
        absent = [name for name in indexed if name not in {info.node for info in infos}]
        if len(absent) == num_missing:
            names += absent
        elif num_missing:
            names.append(f"{num_missing} more {role}" + "s" * (num_missing > 1))
    return names


def is_enough(infos: Sequence[NodeInfo], min_workers: int, num_servers: int) -> bool:
    """Return whether a job may start without those that are missing; never if `min_workers` is 0."""
    roles = {info.role for info in infos}
    num_workers = len(of_role(infos, "worker"))
    needed = {"scheduler", "server"} if num_servers else {"scheduler"}
    return bool(min_workers) and num_workers >= min_workers and needed <= roles


def failure(infos: Sequence[NodeInfo]) -> Verdict | None:
    """Return the verdict of the first process that joined to report its failure; None if there is none."""
    for info in infos:
        if info.failed:
            return Verdict(info.failed[0] or 1, f"{info.node}: {info.failed[1]}")
    return None


def disagreement(infos: Sequence[NodeInfo]) -> str | None:
    """Return the first difference between two processes' descriptions of the run, as a sentence; None if they agree."""
    first, *others = [*workers_in_order(infos), *(info for info in infos if info.role != "worker")]
    for info in others:
        for what, cure in CURES.items():
            if what == "config" and info.role != "worker":  # they may do without
                continue
            mine, firsts = getattr(info, what), getattr(first, what)
            # Servers and the scheduler do without some packages, and without data.
            keys = {*mine, *firsts} if info.role == "worker" else {*mine} & {*firsts}
            for key in sorted(key for key in keys if mine.get(key) != firsts.get(key)):
                name = key if what == "versions" else "--" + key.replace("_", "-")
                differ = f"{info} has {name} {mine.get(key)}, but {first} has {firsts.get(key)}"
                return f"{differ}; {CURES_OF_FLAGS.get(key, cure)}"
    return None


def remarks(infos: Sequence[NodeInfo]) -> tuple[str, ...]:
    """Return a sentence for each thing that makes workers of this job round unlike: the CPU's kernels, threads."""
    on_cpus = [
        info for info in workers_in_order(infos) if not str(info.config.get("devices")).startswith("gpu")
    ]
    workers = [info for info in on_cpus if info.kernels]
    threads = [threads_of(info, workers) for info in workers]
    sentences = (
        _unlike(
            workers,
            [kernels.in_words(info.kernels) for info in workers],
            "last bits differ from those of like hosts",
        ),
        _unlike(
            workers,
            [f"{number} OpenMP thread{'s' * (number > 1)}" for number in threads],
            f"last bits depend on which of them computes what; --threads {min(threads, default=1)} makes them alike",
        ),
    )
    return tuple(filter(None, sentences))


def _unlike(workers: Sequence[NodeInfo], values: Sequence[str], consequence: str) -> str:
    """Return in a sentence the first worker whose value differs from worker 0's; nothing where all are the same."""
    for info, value in zip(workers, values):
        if value != values[0]:
            return f"{info} computes with {value} and {workers[0]} computes with {values[0]}: {consequence}"
    return ""


def threads_of(info: NodeInfo, workers: Sequence[NodeInfo]) -> int:
    """Return with how many OpenMP threads a worker computes beside the others on its host."""
    return info.threads or machine.share_of_cores(info.cores, len(on_host(info, workers)))


def on_host(info: NodeInfo, workers: Sequence[NodeInfo]) -> list[NodeInfo]:
    """Return the workers on the same host as `info`, itself among them."""
    return [each for each in workers if (each.host, each.boot_id) == (info.host, info.boot_id)]


def workers_in_order(infos: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return the workers in the order of their ranks: by index, whichever came first."""
    return in_order(of_role(infos, "worker"))


def in_order(infos: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return processes of one role by index, or without any by host and process."""
    return sorted(infos, key=lambda info: (_index(info.node), info.host, info.pid))


def _index(node: str) -> tuple[int, str]:
    digits = re.search(r"\d+$", node)
    return (int(digits.group()) if digits else -1, node)
