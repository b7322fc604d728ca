"""A model of a step with many workers, of which some are late: computing, sending sums, and adding them.

Pure arithmetic on measured or assumed numbers, with no fitted one.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import NamedTuple

from mxtrain.doctor.cluster import traffic

QUANTILES = 2000


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of one worker in a step; its batch does not depend on the number of workers."""

    num_bytes: float  # of gradients that it sends, and of sums that it gets back
    seconds: float  # of a step without any other worker
    hideable: float = 0.0  # share of that step in which sums travel while gradients are still computed
    jitter: float = 0.0  # standard deviation of that step's time, over its mean
    num_buckets: int = 1


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The hosts: one for each worker, and one for each server unless it shares a worker's."""

    network: float  # bytes a second that a host sends, while it receives as many
    adding: float = float("inf")  # bytes of gradients a second that a server takes in, adds and sends back
    beside_workers: bool = False


class Limit(NamedTuple):
    what: str
    seconds: float


def limits(work: Work, hosts: Hosts, num_workers: int, num_servers: int) -> list[Limit]:
    """Return how long one step's gradients and sums keep each resource busy; all work in parallel.

    Without servers, the workers add among themselves, each its part, which takes little beside sending it.
    """
    if num_workers == 1:
        return [Limit("nothing", 0.0)]
    if num_servers == 0:
        return [
            Limit("the workers' network", traffic.of_allreduce(work.num_bytes, num_workers) / hosts.network)
        ]
    of_server = work.num_bytes * num_workers / num_servers
    adding = Limit("adding on servers", of_server / hosts.adding)
    if hosts.beside_workers:
        leaving = traffic.of_servers_beside_workers(work.num_bytes, num_workers, num_servers)
        return [Limit("the network", leaving / hosts.network), adding]
    return [
        Limit("the workers' network", work.num_bytes / hosts.network),
        Limit("the servers' network", of_server / hosts.network),
        adding,
    ]


class Step(NamedTuple):
    """The parts of a step's seconds, and the resource that the sums wait for."""

    computing: float
    stragglers: float
    waiting: float
    slowest: str

    @property
    def efficiency(self) -> float:
        return self.computing / (self.computing + self.stragglers + self.waiting)

    @property
    def limit(self) -> str:
        """The part that costs most."""
        return self.slowest if self.waiting >= self.stragglers else "stragglers"


def step(work: Work, hosts: Hosts, num_workers: int, num_servers: int) -> Step:
    travel = max(limits(work, hosts, num_workers, num_servers), key=lambda limit: limit.seconds)
    # The last bucket is full when the backward pass ends, and hides behind nothing.
    waiting = max(travel.seconds - work.hideable * work.seconds, travel.seconds / work.num_buckets)
    late = work.jitter * expected_latest(num_workers)
    return Step(work.seconds, work.seconds * late, waiting, travel.what)


def servers_needed(work: Work, hosts: Hosts, num_workers: int, loss: float = 0.01) -> int:
    """Return the fewest servers with which a step is as efficient as with one for each worker, up to `loss`."""
    best = step(work, hosts, num_workers, num_workers).efficiency
    return next(
        count
        for count in range(1, num_workers + 1)
        if step(work, hosts, num_workers, count).efficiency >= best - loss
    )


def expected_latest(num_workers: int) -> float:
    """Return by how many standard deviations the latest of normally distributed times is after their mean."""
    normal = statistics.NormalDist()
    quantiles = ((number + 0.5) / QUANTILES for number in range(QUANTILES))
    return statistics.fmean(normal.inv_cdf(quantile ** (1 / num_workers)) for quantile in quantiles)
