"""Which processes are of a job, where they are started one by one and share no token that others do not have.

Then a second job at the same address has the same token. So each process keeps the job it was in last in its run
folder, and a job that has begun takes back only its own. Owns that file and these rules; does not own what else is
refused (`rendezvous.py`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Sequence

from mxtrain.cluster.admission.rendezvous import NodeInfo, num_expected, of_role
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import RESTART_ME, USAGE


def remembered(path: Path | None) -> str:
    """Return the identifier of the job that a process was in last; an empty text where none is known."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return "" if path is None else path.read_text(encoding="utf-8").strip()
    return ""


def remember(path: Path | None, job: str) -> None:
    """Keep the identifier, if the run folder is there and can be written; without it a process is a new one."""
    if path is not None:
        aside = path.with_name(f"{path.name}-{os.getpid()}")
        with contextlib.suppress(OSError):
            aside.write_text(job, encoding="utf-8")
            aside.replace(path)


def has_begun(node: NodeSpec, job_before: str) -> bool:
    """Return whether an earlier attempt of the job of this scheduler has brought its processes together."""
    return node.is_restart and job_before == node.job


def refusal(
    message: dict[str, Any], info: NodeInfo, node: NodeSpec, job_before: str, is_assigned: bool
) -> Verdict | None:
    """Return why the process that sent this join message is refused as another job's; None if it may be of this one.

    A job that has begun takes processes that remember it, or hold a checkpoint of its own. One that has not takes none
    that another job waits for, unless it is that job under a scheduler that was started anew, in the same run folder.
    `job_before` is what the scheduler remembers from before this attempt, `is_assigned` says that this one has begun.
    """
    if node.memory is None:
        return None
    job, where = str(message.get("job", "")), f"{node.root}:{node.port}"
    if is_assigned or has_begun(node, job_before):
        if node.job in (job, *info.savers):
            return None
        return Verdict(
            USAGE,
            f"another job holds {where}, and {info} is none of its processes; give this job another "
            f"{node.root_names} (a new host of that job needs one of its checkpoints in --out first)",
        )
    if message.get("is_restart") is True and job not in ("", node.job, job_before):
        return Verdict(
            RESTART_ME, f"another job has taken {where}, and {info} waits for the scheduler of its own"
        )
    return None


def strays(infos: Sequence[NodeInfo], scheduler: NodeInfo) -> list[NodeInfo]:
    """Return the workers and servers that contradict the scheduler's flags, if some worker does not."""
    found = [info for info in infos if contradiction(info, scheduler)]
    return found if any(info not in found for info in of_role(infos, "worker")) else []


def outranked(
    info: NodeInfo, members: Sequence[NodeInfo], scheduler: NodeInfo, node: NodeSpec
) -> list[NodeInfo]:
    """Return the member in the place that `info` needs, if only that one contradicts the scheduler's flags.

    `node` is the scheduler's own place.
    """
    if node.memory is None or contradiction(info, scheduler):
        return []
    of_its_role = of_role(members, info.role)
    twins = [each for each in of_its_role if each.node == info.node != info.role]
    is_full = len(of_its_role) >= num_expected(node, info.role)
    rivals = twins or (of_its_role if is_full else [])
    return [each for each in rivals if contradiction(each, scheduler)][:1]


def contradiction(info: NodeInfo, scheduler: NodeInfo) -> str:
    """Return the first flag that the scheduler was given and this process otherwise; servers need not be given any."""
    for name, value in scheduler.config.items():
        if info.config.get(name, value) != value:
            flag = "--" + name.replace("_", "-")
            return f"{info} has {flag} {info.config[name]}, but {scheduler} has {value}"
    return ""
