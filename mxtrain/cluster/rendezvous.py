"""The roll call: who may come, who is missing, whether all describe the same run, and who computes what.

Pure judgement over the cards that processes show when they come; sockets and clocks are `watch`'s business.
"""

from __future__ import annotations

import dataclasses
import hmac
import re
from typing import Any, Iterable, Sequence

from mxtrain.cluster.environment import ROLES, NodeSpec, is_name
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import RESTART_ME, USAGE

CURES = {
    "versions": "install the same everywhere",
    "config": "give all the same flags",
    "data": "give all the same data",
}
FRESH = -1  # resume_step where there is none to go on from


@dataclasses.dataclass(frozen=True)
class NodeInfo:
    """What a process tells of itself; all but the first five may be empty for servers and the scheduler."""

    role: str
    node: str
    host: str
    boot_id: str
    pid: int
    versions: dict[str, Any] = dataclasses.field(default_factory=dict)
    config: dict[str, Any] = dataclasses.field(default_factory=dict)  # flags that must be equal
    data: dict[str, Any] = dataclasses.field(default_factory=dict)  # fingerprints that must be equal
    folder: str = ""  # what the run folder's disk is known by; equal on a shared disk
    checkpoints: tuple[int, ...] = ()  # steps of the whole ones
    savers: tuple[str, ...] = ()  # the job that wrote each of them
    threads: int = 0
    sockets: str = ""  # where its unix sockets are, by which those on the same host meet
    failed: tuple[Any, ...] = ()  # exit code and reason of one that comes only to say why it cannot

    def __str__(self) -> str:
        return f"{self.node} ({self.host}, pid {self.pid})"


@dataclasses.dataclass(frozen=True)
class Assignment:
    """What a process is told at the end of the roll call."""

    engine_port: int
    num_workers: int
    num_servers: int
    rank: int  # 0.. among the workers, -1 for others
    resume_step: int
    is_writer: bool
    local_workers: int
    over_sockets: bool = False  # ps-lite's processes meet at unix sockets
    several_disks: bool = False  # of the workers' run folders
    job: str = ""  # by which it knows its own checkpoints again


def card_of(content: Any) -> NodeInfo:
    """The card in a message; ValueError where it is none."""
    try:
        lists = {name: tuple(content.get(name, ())) for name in ("checkpoints", "savers", "failed")}
        card = NodeInfo(**{**content, **lists})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a card that is none: {error}") from None
    for field in dataclasses.fields(NodeInfo):
        kind = {"int": int, "str": str, "tup": tuple, "dic": dict}[str(field.type)[:3]]
        if type(getattr(card, field.name)) is not kind:
            raise ValueError(f"a card whose {field.name} is of the wrong kind")
    if not is_name(card.node, card.role) or not (card.host.isprintable() and len(card.host) < 256):
        raise ValueError("a card of nobody")
    if not all(type(step) is int and step >= 0 for step in card.checkpoints):
        raise ValueError("a card with odd checkpoints")
    if not all(type(job) is str for job in card.savers):
        raise ValueError("a card with odd savers")
    if card.failed and [type(each) for each in card.failed] != [int, str]:
        raise ValueError("a card with an odd failure")
    return card


def hello(cluster: NodeSpec, card: NodeInfo) -> dict[str, Any]:
    """The first message on a control line."""
    return {
        "kind": "hello",
        "token": cluster.token,
        "generation": cluster.generation,
        "world": [cluster.num_workers, cluster.num_servers],
        "is_restart": cluster.is_restart,
        "card": dataclasses.asdict(card),
    }


def refusal(
    message: dict[str, Any], card: NodeInfo, cluster: NodeSpec, seated: Sequence[NodeInfo]
) -> Verdict | None:
    """Why this one may not come, though others may; None where it is welcome."""
    world, told = [cluster.num_workers, cluster.num_servers], message.get("world")
    if not isinstance(told, list) or [type(count) for count in told] != [int, int]:
        raise ValueError("a world that is none")
    # Who was at the right place in an earlier life finds another job's scheduler here for a while, not by mistake.
    wrong_place = RESTART_ME if message.get("is_restart") is True else USAGE
    if told != world:
        wrong = f"is told of {told} workers and servers, the scheduler of {world}"
        return Verdict(wrong_place, f"{card} {wrong}; give all the same DMLC_NUM_WORKER and DMLC_NUM_SERVER")
    if not hmac.compare_digest(str(message.get("token")).encode(), cluster.token.encode()):
        where = f"{cluster.root}:{cluster.port}"
        return Verdict(
            wrong_place, f"{card} is of another job than the scheduler at {where}; give each job its own port"
        )
    if message.get("generation") != cluster.generation:
        lives = f"life {message.get('generation')} of the job, the scheduler of life {cluster.generation}"
        return Verdict(RESTART_ME, f"{card} is of {lives}; what is left of the older one has to go")
    twin = next((other for other in seated if other.node == card.node and card.node != card.role), None)
    if twin is not None:
        return Verdict(RESTART_ME, f"{card} comes as a second {card.node}; {twin} is here already")
    if len(of_role(seated, card.role)) >= num_wanted(cluster, card.role):
        here = ", ".join(str(other) for other in of_role(seated, card.role))
        return Verdict(USAGE, f"{card} is one too many, {here} came before; start one {card.role} less")
    return None


def num_wanted(cluster: NodeSpec, role: str) -> int:
    return {"scheduler": 1, "server": cluster.num_servers, "worker": cluster.num_workers}[role]


def of_role(cards: Iterable[NodeInfo], role: str) -> list[NodeInfo]:
    return [card for card in cards if card.role == role]


def missing(cluster: NodeSpec, cards: Sequence[NodeInfo]) -> list[str]:
    """The names of those who have not come, as far as those who have were given names."""
    found: list[str] = []
    for role in ROLES:
        num_missing = num_wanted(cluster, role) - len(of_role(cards, role))
        slots = [role] if role == "scheduler" else [f"{role}-{n}" for n in range(num_wanted(cluster, role))]
        empty = [slot for slot in slots if slot not in {card.node for card in cards}]
        if len(empty) == num_missing:
            found += empty
        elif num_missing:
            found.append(f"{num_missing} more {role}" + "s" * (num_missing > 1))
    return found


def enough(cards: Sequence[NodeInfo], min_workers: int) -> bool:
    """Whether the job may begin though not all have come."""
    few = len(of_role(cards, "worker"))
    roles = {card.role for card in cards}
    return bool(min_workers) and few >= min_workers and {"server", "scheduler"} <= roles


def failure(cards: Sequence[NodeInfo]) -> Verdict | None:
    """Why one of those who came cannot take part."""
    for card in cards:
        if card.failed:
            return Verdict(card.failed[0] or 1, f"{card.node}: {card.failed[1]}")
    return None


def disagreement(cards: Sequence[NodeInfo]) -> str | None:
    """The first thing in which two processes describe different runs."""
    first, *others = [*in_order(cards), *(card for card in cards if card.role != "worker")]
    for card in others:
        for what, cure in CURES.items():
            mine, firsts = getattr(card, what), getattr(first, what)
            # Servers and the scheduler do without some packages, and without data.
            keys = {*mine, *firsts} if card.role == "worker" else {*mine} & {*firsts}
            for key in sorted(key for key in keys if mine.get(key) != firsts.get(key)):
                name = key if what == "versions" else "--" + key.replace("_", "-")
                return f"{card} has {name} {mine.get(key)}, but {first} has {firsts.get(key)}; {cure}"
    return None


def resume_step(workers: Sequence[NodeInfo], cluster: NodeSpec) -> int | str:
    """The newest step that every disk holds; FRESH where the job begins once more, or why it cannot go on."""
    disks: dict[str, list[NodeInfo]] = {}
    for card in workers:
        disks.setdefault(card.folder, []).append(card)
    steps = {
        folder: set.intersection(*(_eligible(card, cluster) for card in on)) for folder, on in disks.items()
    }
    full = [folder for folder in disks if steps[folder]]
    bare = [folder for folder in disks if not steps[folder]]
    if not full:
        return FRESH
    rich = disks[full[0]][0]
    # Something died while this job's first checkpoint was written. Before its second all disks have the first.
    if bare and all(
        len(steps[folder]) == 1 and steps[folder] <= _own(disks[folder][0], cluster) for folder in full
    ):
        return FRESH
    if bare:
        newest = max(steps[full[0]])
        return (
            f"{disks[bare[0]][0]} has no checkpoint in its --out, {rich} has step {newest}; copy "
            f"checkpoints/step-{newest:08d} there, or give all --resume never or another --out"
        )
    common = set.intersection(*(steps[folder] for folder in full))
    if not common:
        poor = next(disks[folder][0] for folder in full if not steps[folder] & steps[full[0]])
        return (
            f"{rich} has checkpoints of steps {_listed(rich.checkpoints)}, {poor} of {_listed(poor.checkpoints)}, "
            "and none in common; copy one over, or give all --resume never or another --out"
        )
    return max(common)


def _eligible(card: NodeInfo, cluster: NodeSpec) -> set[int]:
    """--resume never or PATH is said of a job's beginning, not of what it has saved itself."""
    return set(card.checkpoints) if card.config.get("resume", "auto") == "auto" else _own(card, cluster)


def _own(card: NodeInfo, cluster: NodeSpec) -> set[int]:
    """Steps that an earlier life of this job has saved."""
    saved = zip(card.checkpoints, card.savers)
    return {step for step, job in saved if job == cluster.job} if cluster.is_restart else set()


def in_order(cards: Iterable[NodeInfo]) -> list[NodeInfo]:
    """The workers by their numbers: slots count, whoever came first."""
    return sorted(of_role(cards, "worker"), key=lambda card: (_slot(card.node), card.host, card.pid))


def divide(cards: Sequence[NodeInfo], engine_port: int, step: int, job: str = "") -> list[Assignment]:
    """What each of `cards` is told, in their order."""
    workers = in_order(cards)
    places = {(card.host, card.boot_id, card.sockets) for card in cards}
    over_sockets = len(places) == 1 and cards[0].sockets != ""
    several_disks = len({card.folder for card in workers}) > 1
    told = []
    for card in cards:
        rank = workers.index(card) if card.role == "worker" else -1
        first_on_disk = next((each for each in workers if each.folder == card.folder), None)
        here = [each for each in workers if (each.host, each.boot_id) == (card.host, card.boot_id)]
        told.append(
            Assignment(
                engine_port=engine_port,
                num_workers=len(workers),
                num_servers=len(of_role(cards, "server")),
                rank=rank,
                resume_step=step,
                is_writer=card is first_on_disk,
                local_workers=len(here),
                over_sockets=over_sockets,
                several_disks=several_disks,
                job=job,
            )
        )
    return told


def _slot(node: str) -> tuple[int, str]:
    digits = re.search(r"\d+$", node)
    return (int(digits.group()) if digits else -1, node)


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(str(step) for step in sorted(steps)[-3:])
