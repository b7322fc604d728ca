"""Sums over workers that the workers make among themselves, without servers.

Owns no name: `store.py` is the store; `peers.py` connects its workers, `host_sums.py` adds within a host and
`network_sums.py` between hosts.
"""
