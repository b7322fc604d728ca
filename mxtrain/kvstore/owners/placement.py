"""The server that owns each parameter: a parameter lies whole on one, and all have about as many numbers."""

from __future__ import annotations

from typing import Sequence


def place(sizes: Sequence[int], num_servers: int) -> list[int]:
    """Return the server of each parameter of these `sizes`: the largest first, each to the one with the least."""
    totals, servers = [0] * num_servers, [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        servers[index] = min(range(num_servers), key=lambda server: (totals[server], server))
        totals[servers[index]] += sizes[index]
    return servers


def owned(servers: Sequence[int], server: int) -> list[int]:
    """Return the parameters that lie on a server, in order."""
    return [index for index, each in enumerate(servers) if each == server]
