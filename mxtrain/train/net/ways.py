"""The ways to share out what a run trains: which of them its flags allow, what each takes, and which fit here.

Owns the list of ways; their arithmetic is `memory_plan.py`'s. A way whose flag `fit` does not have is none, and what
the checks of flags refuse is none either.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from mxtrain import config
from mxtrain.config import Run, schema
from mxtrain.config.checks import run_checks, store_checks
from mxtrain.config.components import stores
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import UsageError
from mxtrain.train.net import memory_plan
from mxtrain.train.net.memory_plan import OF_SCHEDULER, MemoryPlan, NetBytes, Processes, Way

REMAT, ALLREDUCE = {"remat": True}, {"kvstore": "allreduce"}
SERVERS, LAYERS, ON_DISK = {"update": "servers"}, {"hold": "layers"}, {"store_dir": "DIR"}
# From the one that takes least time to the one that takes least memory; `stages` is as many as a worker has devices.
WAYS: Sequence[Mapping[str, Any]] = (
    {},
    REMAT,
    ALLREDUCE,
    {**ALLREDUCE, **REMAT},
    {"stages": "N"},
    SERVERS,
    {**SERVERS, **REMAT},
    LAYERS,
    {**SERVERS, **LAYERS},
    {**LAYERS, **ON_DISK},
    {**SERVERS, **LAYERS, **ON_DISK},
)
CHOICES = ("remat", "update", "hold", "store_dir", "stages")  # flags of a run that make it one of them
HEAD = ("worker 0", "others", "server", "device", "wire", "all", "", "way")


class PlannedWay(NamedTuple):
    """A way with its plan, and the bytes that the whole job takes where all of it is on one machine."""

    way: Way
    processes: Processes
    plan: MemoryPlan

    @property
    def num_bytes(self) -> int:
        """All processes together, with what Python and MXNet take."""
        of_scheduler = OF_SCHEDULER if self.processes.is_cluster else 0
        return self.plan.on_host(self.processes.workers, self.processes.servers) + of_scheduler


def planned(
    run: Run,
    net: NetBytes,
    processes_of: Callable[[Run], Processes],
    objects: ProgramObjects = NO_OBJECTS,
) -> tuple[PlannedWay, list[PlannedWay]]:
    """Return the way of `run`, and all that its flags allow, that one among them.

    `processes_of` tells the processes of a run like this one with other flags.
    """
    own = planned_as_it_is(run, net, processes_of(run))
    others = []
    for flags in WAYS:
        other = _with_flags(run, flags, objects)
        if other is None or _choices(other) == _choices(run) or not _is_possible(flags, net):
            continue
        others.append(_planned(_way(flags, _as_typed(flags)), net, processes_of(other)))
    return own, [own, *others]


def planned_as_it_is(run: Run, net: NetBytes, processes: Processes) -> PlannedWay:
    """Return the way of `run`, which these processes compute."""
    return _planned(_way(_choices(run), "as it is"), net, processes)


def table(own: PlannedWay, ways: Sequence[PlannedWay], left: int) -> list[str]:
    """Return lines with the bytes of each way, whether it fits into `left` bytes, and what to do if `own` does not."""
    rows = [HEAD, *(_row(each, left) for each in ways)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(numbers, widths)), way])
        for *numbers, way in rows
    ]
    title = f"MB by process, on the wire a step, and of all on this machine, which has {_number(left)} left:"
    return [title, *lines, *advice(own, ways, left)]


def advice(own: PlannedWay, ways: Sequence[PlannedWay], left: int) -> list[str]:
    """Return a line that names the flags that make a run fit, or says that none do; none where it fits."""
    if own.num_bytes <= left:
        return []
    fitting = next((each for each in ways if each.num_bytes <= left), None)
    needs = f"this run takes {_mb(own.num_bytes)}, and this machine has {_mb(left)} left"
    if fitting is None:
        return [f"{needs}: no way here takes less; give more hosts, or a smaller --model or --micro-batch"]
    return [f"{needs}: {fitting.way.flags} fits, with {_mb(fitting.num_bytes)}"]


class Shortage(NamedTuple):
    """The lack of room for a job: for what it holds in each step, which is sure, or for all that is estimated."""

    is_sure: bool
    text: str


def shortage(
    own: PlannedWay, ways: Sequence[PlannedWay], left: int, local_workers: int, local_servers: int
) -> Shortage | None:
    """Return why so many processes of a job may find no room in `left` bytes of a host, and which would; or None."""

    def on_host(way: PlannedWay) -> int:
        return way.plan.on_host(local_workers, min(local_servers, way.processes.servers))

    sure, likely = own.plan.at_least_on_host(local_workers, local_servers), on_host(own)
    if max(sure, likely) <= left:
        return None
    fitting = next((each for each in ways if on_host(each) <= left), None)
    way_out = "give more hosts or a smaller net"
    if fitting is not None:
        way_out = f"{fitting.way.flags} fits, with {_mb(on_host(fitting))}"
    held = "weights, gradients and what the optimizer holds"
    needs = (
        f"{held} take {_mb(sure)}" if sure > left else f"{held}, and copies of it, take about {_mb(likely)}"
    )
    text = f"{needs} on this host, which has {_mb(left)} left; {way_out}"
    return Shortage(sure > left, text)


def _planned(way: Way, net: NetBytes, processes: Processes) -> PlannedWay:
    return PlannedWay(way, processes, memory_plan.of_way(way, net, processes))


def _way(flags: Mapping[str, Any], text: str) -> Way:
    return Way(
        text,
        recomputes=bool(flags.get("remat")),
        updates_on_servers=flags.get("update") == "servers",
        holds_layers=flags.get("hold") == "layers",
        is_on_disk=bool(flags.get("store_dir")),
        is_in_stages=flags.get("stages") not in (None, 0, 1),
    )


def _choices(run: Run) -> dict[str, Any]:
    flat = config.to_flat(run)
    return {name: flat[name] for name in (*CHOICES, "kvstore") if name in flat}


def _with_flags(run: Run, flags: Mapping[str, Any], objects: ProgramObjects) -> Run | None:
    """Return `run` with these flags, and none of another way; None where that is no run."""
    flat, default = config.to_flat(run), config.to_flat(Run())
    if not flags.keys() <= flat.keys():
        return None
    is_cluster = stores.is_cluster(run.layout.kvstore)
    if is_cluster < ("kvstore" in flags):
        return None
    if "stages" in flags:
        devices = len(run.layout.devices.split(","))
        if devices == 1:
            return None
        flags = {**flags, "stages": devices}
    others = {name: default[name] for name in CHOICES if name in flat}
    if flags.get("kvstore") == "allreduce":
        others["num_servers"] = default["num_servers"]
    other = dataclasses.replace(config.from_flat({**flat, **others, **flags}), explicit=run.explicit)
    try:
        run_checks.check_description(other, objects)
        store_checks.check_store(other)
    except UsageError:
        return None
    return other


def _is_possible(flags: Mapping[str, Any], net: NetBytes) -> bool:
    """Return whether a net can be cut, where these flags would have it so."""
    return bool(net.segments) or not {"remat", "hold", "stages"} & flags.keys()


def _as_typed(flags: Mapping[str, Any]) -> str:
    words = (schema.flag_of(name) + ("" if value is True else f" {value}") for name, value in flags.items())
    return " ".join(words) or "without these"


def _row(planned_way: PlannedWay, left: int) -> tuple[str, ...]:
    way, processes, plan = planned_way
    return (
        _number(plan.first_worker.total),
        _number(plan.worker.total) if processes.workers > 1 else "",
        _number(plan.server.total) + (" + disk" if plan.disk else "") if processes.servers else "",
        " ".join(dict.fromkeys(_number(each.total) for each in plan.devices)),
        _number(plan.wire) if processes.is_cluster else "",
        _number(planned_way.num_bytes),
        "fits" if planned_way.num_bytes <= left else "too much",
        way.flags,
    )


def _number(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f}"


def _mb(num_bytes: int) -> str:
    return f"{_number(num_bytes)} MB"
