"""Bytes that the sums of a step take over the network, through servers and among the workers themselves. Pure.

Owns the arithmetic of docs/distributed.md, with a worker on each host.
"""

from __future__ import annotations


def of_allreduce(num_bytes: float, num_hosts: int) -> float:
    """Return the bytes that each host sends, and receives, to sum `num_bytes` of gradients of each."""
    return 2 * num_bytes * (num_hosts - 1) / num_hosts


def of_servers(num_bytes: float, num_hosts: int, num_servers: int) -> float:
    """Return the bytes that the busiest host sends, and receives, with servers on hosts of their own.

    A worker sends its gradients and receives sums; a server does so with its part of all workers'.
    """
    return num_bytes * max(1.0, num_hosts / num_servers)


def of_servers_beside_workers(num_bytes: float, num_hosts: int, num_servers: int) -> float:
    """Return the bytes that the busiest host sends, and receives, with up to one server beside each worker."""
    as_worker = num_bytes * (1 - 1 / num_servers)
    return as_worker + num_bytes / num_servers * (num_hosts - 1)


def servers_that_pay(num_hosts: int) -> int:
    """Return the fewest hosts of servers alone by which a step sends less than all-reduce; 0 if no number does."""
    for count in range(1, num_hosts + 1):
        if of_servers(1.0, num_hosts, count) < of_allreduce(1.0, num_hosts):
            return count
    return 0
