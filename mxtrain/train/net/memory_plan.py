"""The bytes of a job's processes and of its wire, by arithmetic: for each way to share out what is trained.

Owns the arithmetic alone, on plain numbers: nothing is built to know it. What a net needs is `net_bytes.py`'s, which
ways a run has `ways.py`'s. Measured processes are within a few percent of it, with what Python and MXNet take
themselves (docs/adr/0052).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Sequence

MEGABYTE = 10**6
# What a process has before there are arrays: Python, MXNet and its threads. Measured; the scheduler's is ps-lite's.
OF_WORKER, OF_SERVER, OF_SCHEDULER = 220 * MEGABYTE, 170 * MEGABYTE, 170 * MEGABYTE
# Float64 totals of gradients have twice their bytes; a worker with one micro-batch keeps float32.
WIDE, SINGLE = 2, 1
# ps-lite's servers hold a sum, what arrives and what leaves.
COPIES_OF_PS_LITE = 3


class SegmentBytes(NamedTuple):
    """A part of a net between two cuts: its weights, what it computes for a micro-batch, and what it passes on."""

    weights: int
    inside: int
    handed_on: int


@dataclasses.dataclass(frozen=True)
class NetBytes:
    """The sizes of a net that is held once, and of its optimizer."""

    weights: int
    trained: int  # of the weights, those that have gradients, which are as large
    state: int  # of the optimizer
    averages: int  # of --ema
    largest: int  # of the trained parameters: it lies on one server
    split: int  # of the trained parameters, those that lie in several buckets, to which they are copied
    computed: int  # for a micro-batch that is not recomputed; 0: not known
    segments: Sequence[SegmentBytes] = ()  # none: the net cannot be cut
    head: int = 0  # of the weights, those of a head in chunks, which are in no segment
    chunk: int = 0  # the largest of these


@dataclasses.dataclass(frozen=True)
class Processes:
    """The processes of a job, and how much of a step the first worker computes."""

    workers: int = 1
    servers: int = 0
    devices: int = 1  # of each worker
    micro_batches: int = 1  # of the first worker
    is_exact: bool = True
    are_gpus: bool = False
    is_cluster: bool = False


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to share out weights, gradients, states and activations, by the flags that choose it."""

    flags: str  # as they are typed; empty for none
    recomputes: bool = False  # activations
    updates_on_servers: bool = False
    holds_layers: bool = False  # those that are computed now
    is_on_disk: bool = False  # what servers own
    is_in_stages: bool = False  # layers over devices


@dataclasses.dataclass(frozen=True)
class ProcessBytes:
    """The most that a process, or a device, holds, by kind."""

    weights: int = 0
    gradients: int = 0
    totals: int = 0  # of gradients that are added exactly
    state: int = 0
    averages: int = 0
    activations: int = 0
    copies: int = 0  # for a checkpoint, and to compare workers
    buffers: int = 0  # of the wire

    @property
    def total(self) -> int:
        """All of them."""
        return sum(dataclasses.astuple(self))

    @property
    def at_least(self) -> int:
        """The part that is there in any step, whatever else is estimated."""
        return self.weights + self.gradients + self.totals + self.state

    def __add__(self, other: ProcessBytes) -> ProcessBytes:
        return ProcessBytes(*map(sum, zip(dataclasses.astuple(self), dataclasses.astuple(other))))


class MemoryPlan(NamedTuple):
    """The bytes of each kind of process; of the wire those that a worker sends and receives in a step."""

    first_worker: ProcessBytes  # which writes checkpoints
    worker: ProcessBytes  # each other one
    server: ProcessBytes
    devices: Sequence[ProcessBytes]  # of a worker
    wire: int
    disk: int = 0  # of each server, as its memory

    def on_host(self, workers: int, servers: int, with_first: bool = True) -> int:
        """Return what so many of the job's processes take of one host, with what Python and MXNet take."""
        firsts = min(workers, int(with_first))
        return (
            firsts * self.first_worker.total
            + (workers - firsts) * self.worker.total
            + servers * (self.server.total + OF_SERVER)
            + workers * OF_WORKER
        )

    def at_least_on_host(self, workers: int, servers: int) -> int:
        """Return what they take of it in any step, without anything that is estimated."""
        return workers * self.worker.at_least + servers * self.server.at_least


def of_way(way: Way, net: NetBytes, processes: Processes) -> MemoryPlan:
    """Return the plan of a way."""
    devices = (
        _stages(net, processes) if way.is_in_stages else [_device(way, net, processes)] * processes.devices
    )
    worker = ProcessBytes(totals=_totals(way, net, processes))
    if not processes.are_gpus:
        worker = sum(devices, worker)
        if (
            processes.devices > 1 and not way.is_in_stages
        ):  # the store's sum, and what comes from other devices
            worker += ProcessBytes(buffers=processes.devices * net.trained)
    is_lent = way.holds_layers or _lends_head(way, net)
    if way.holds_layers and not processes.servers:  # the process owns what it holds in parts
        worker += _owned(net, 1, 1, way.is_on_disk)
    copies = 0 if is_lent else net.weights
    of_states = 0 if is_lent else net.state  # servers' too, which are read for a checkpoint
    worker += ProcessBytes(averages=net.averages)
    if processes.is_cluster and not way.updates_on_servers:
        worker += ProcessBytes(buffers=net.split)
    first = worker + ProcessBytes(copies=copies + of_states + net.averages)
    server, disk = ProcessBytes(), 0
    if way.updates_on_servers:
        server = _owned(net, processes.servers, processes.workers, way.is_on_disk)
        disk = _share(net.weights + net.trained + net.state, net.largest, processes.servers)
    elif processes.servers:
        share = _share(net.trained, 0, processes.servers)
        server = ProcessBytes(gradients=share, buffers=(COPIES_OF_PS_LITE - 1) * share)
    compared = ProcessBytes(copies=copies if processes.is_cluster else 0)
    return MemoryPlan(
        first, worker + compared, server, devices, _wire(way, net, processes), disk * way.is_on_disk
    )


def _lends_head(way: Way, net: NetBytes) -> bool:
    """Return whether servers lend the chunks of a head to workers that hold the rest of the net at once."""
    return way.updates_on_servers and net.head > 0 and not way.holds_layers


def _device(way: Way, net: NetBytes, processes: Processes) -> ProcessBytes:
    if _lends_head(way, net):
        return ProcessBytes(
            weights=net.weights - net.head + net.chunk,
            gradients=max(net.trained - net.head, net.chunk),
            activations=recomputed(net) if way.recomputes else net.computed,
        )
    if way.holds_layers:
        ordered = sorted((each.weights for each in net.segments), reverse=True)
        return ProcessBytes(
            weights=sum(ordered[:2]) + net.chunk,  # one is computed, the next one travels
            gradients=max(ordered[0], net.chunk),
            activations=processes.micro_batches * _handed_on(net) + max(each.inside for each in net.segments),
        )
    return ProcessBytes(
        weights=net.weights,
        gradients=net.trained,
        state=0 if way.updates_on_servers else net.state,
        # Gradients of chunks are made apart, before they are written to where all others are.
        activations=(recomputed(net) if way.recomputes else net.computed) + net.head,
    )


def _totals(way: Way, net: NetBytes, processes: Processes) -> int:
    """Return the bytes of a worker's totals: of all gradients, or of those of a segment at a time."""
    if not processes.is_exact:
        # As they come they are added on each device, apart from the last micro-batch's.
        return processes.devices * net.trained if processes.micro_batches > processes.devices else 0
    if (
        processes.is_cluster
        and processes.workers == 2
        and processes.micro_batches == 1
        and not way.holds_layers
    ):
        return 0  # each is rounded where it is
    added = max((each.weights for each in net.segments), default=0) if way.holds_layers else net.trained
    added -= net.head if _lends_head(way, net) else 0  # of a chunk some rows at a time
    return added * (WIDE if processes.micro_batches > 1 else SINGLE)


def _owned(net: NetBytes, servers: int, workers: int, is_on_disk: bool) -> ProcessBytes:
    """Return what one of `servers` owners holds: its parameters, their state and their sums over workers.

    A parameter's exact total is there from the first worker's push to the last one's.
    """
    open_totals = WIDE * net.largest if workers > 1 else 0
    if is_on_disk:  # pages of files come and go, but for those of the parameter that is updated
        state = net.largest * net.state // max(1, net.trained)
        return ProcessBytes(weights=net.largest, gradients=net.largest, totals=open_totals, state=state)
    return ProcessBytes(
        weights=_share(net.weights, net.largest, servers),
        gradients=_share(net.trained, net.largest, servers),
        totals=open_totals,
        state=_share(net.state, net.largest * net.state // max(1, net.trained), servers),
    )


def _stages(net: NetBytes, processes: Processes) -> list[ProcessBytes]:
    """Return what each device holds of a net whose segments lie on them, with as many micro-batches as it has begun."""
    parts, filled = [0] * processes.devices, 0
    stages: list[list[SegmentBytes]] = [[] for _ in parts]
    whole = sum(_of_segment(net, each) for each in net.segments)
    for each in net.segments:
        size = _of_segment(net, each)
        stages[min(processes.devices - 1, (filled + size // 2) * processes.devices // max(1, whole))].append(
            each
        )
        filled += size
    return [
        ProcessBytes(
            weights=sum(each.weights for each in stage),
            gradients=sum(each.weights for each in stage),
            state=sum(each.weights for each in stage) * net.state // max(1, net.trained),
            activations=min(processes.micro_batches, processes.devices - number)
            * sum(each.inside for each in stage),
        )
        for number, stage in enumerate(stages)
    ]


def _of_segment(net: NetBytes, segment: SegmentBytes) -> int:
    return segment.weights * (2 * net.trained + net.state) // max(1, net.trained) + segment.inside


def _handed_on(net: NetBytes) -> int:
    return sum(each.handed_on for each in net.segments[:-1])


def recomputed(net: NetBytes) -> int:
    """Return what is kept of a micro-batch, with what the largest segment computes."""
    return _handed_on(net) + max((each.inside for each in net.segments), default=net.computed)


def _wire(way: Way, net: NetBytes, processes: Processes) -> int:
    """Return the bytes that a worker sends and receives in a step."""
    if not processes.is_cluster:
        return 0
    if (
        not processes.servers
    ):  # all-reduce: each hands on all parts of a sum but its own, twice, and gets as many
        return 4 * net.trained * (processes.workers - 1) // max(1, processes.workers)
    if not way.holds_layers:
        return 2 * net.trained + (net.head if _lends_head(way, net) else 0)  # chunks come twice
    # The last segment's forward pass is recorded, so its weights come once.
    return 2 * net.weights - net.segments[-1].weights + net.trained


def _share(total: int, largest: int, servers: int) -> int:
    """Return what the fullest of `servers` has of arrays that lie whole on one, the largest ones first."""
    return max(-(-total // max(1, servers)), largest)
