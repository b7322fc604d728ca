"""TCP sockets at the scheduler's address: connecting to its port, opening it, and holding one for ps-lite.

Owns the refusals and verdicts that name the address. Does not own what is sent over the sockets.
"""

from __future__ import annotations

import errno
import socket
import time
from typing import Sequence

from mxtrain.cluster.channel import MAX_RAW_BYTES, Channel, Closed, Malformed
from mxtrain.cluster.environment import NodeSpec
from mxtrain.cluster.gateway import credentials, handshake
from mxtrain.cluster.verdicts import Verdict
from mxtrain.core.errors import RESTART_ME, USAGE, RestartMe, Stop, UsageError, as_stop

CONNECT_SECONDS = 5.0
RETRY_SECONDS = 0.05
STOPPING_SECONDS = 1.0  # to reach a slow scheduler after a stop request, so that the others hear of it
BACKLOG = 512


def connect(node: NodeSpec, seconds: float, stop_requests: Sequence[Stop]) -> Channel:
    """Return a control channel to the scheduler, which may start up to `seconds` later than this process.

    After a stop request it waits STOPPING_SECONDS at most, and raises that request if nobody answers.
    """
    deadline, is_stopping = time.monotonic() + seconds, False
    while True:
        if stop_requests and not is_stopping:
            deadline, is_stopping = min(deadline, time.monotonic() + STOPPING_SECONDS), True
        remaining = deadline - time.monotonic()
        try:
            return _connected(node, max(0.1, min(CONNECT_SECONDS, remaining)))
        except handshake.HandshakeFailed as refusal:
            raise _shut_out(node, str(refusal)) from None
        except OSError as error:
            problem = error.strerror or str(error)
        if remaining <= 0:
            if is_stopping:
                raise stop_requests[0]
            stop = RestartMe if node.is_restart else UsageError
            raise stop(
                f"{node.name}: no scheduler at {node.root}:{node.port} in {seconds:g} s ({problem}); start "
                f"it, and give its own address and port as {node.root_names}"
            )
        time.sleep(RETRY_SECONDS)


def _connected(node: NodeSpec, seconds: float) -> Channel:
    """Return a control channel, on one host in the clear, else encrypted; OSError where nobody listens."""
    if node.secret:
        own = credentials.of_secret(node.secret)
        remote = handshake.connect(node.root, node.port, own, handshake.CONTROL, node.attempt, seconds)
        return Channel(remote.socket, MAX_RAW_BYTES, remote.cipher)
    connection = socket.create_connection((node.root, node.port), timeout=seconds)
    # Repeated attempts at a port of the ephemeral range can connect a socket to itself.
    if connection.getsockname() == connection.getpeername():
        connection.close()
        raise ConnectionRefusedError("nobody listens")
    return Channel(connection, MAX_RAW_BYTES)


def _shut_out(node: NodeSpec, reason: str) -> Stop:
    stop = RestartMe if node.is_restart else UsageError
    return stop(
        f"{node.name}: what listens at {node.root}:{node.port} is no scheduler with this job's secret ({reason}); "
        f"give all processes of the job the same MXTRAIN_SECRET, and another job another {node.root_names}"
    )


def silence(node: NodeSpec, seconds: float, has_spoken: bool) -> Verdict:
    """Return the verdict on a scheduler that has said nothing for so long, or has never; then it may be none.

    That ends a first attempt for good, unless one supervisor starts all: then it is a scheduler that froze at once.
    """
    if has_spoken or node.is_restart or node.memory is None:
        return Verdict(RESTART_ME, f"{node.name}: heard nothing from the scheduler for {seconds:.1f} s")
    return Verdict(
        USAGE,
        f"{node.name}: what listens at {node.root}:{node.port} has said nothing in {seconds:.1f} s; is it the "
        f"scheduler, and does that run? Give its own address and port as {node.root_names}",
    )


def broken(node: NodeSpec, error: Exception, is_assigned: bool) -> Verdict:
    """Return the verdict on a channel to the scheduler that ended with this error; `is_assigned`: it was the job's."""
    where = f"{node.root}:{node.port}"
    if isinstance(error, Closed):
        return Verdict(RESTART_ME, f"{node.name}: the scheduler at {where} has gone ({error})")
    if isinstance(error, Malformed):
        # After a restart another program may have taken the port, and may free it before the next attempt.
        code = RESTART_ME if is_assigned or node.is_restart else USAGE
        return Verdict(code, f"{node.name}: what listens at {where} is no scheduler of mxtrain ({error})")
    return Verdict(RESTART_ME, f"{node.name}: {as_stop(error) or f'the control channel broke ({error!r})'}")


def listen(node: NodeSpec, seconds: float) -> socket.socket:
    """Return the scheduler's listening socket, which never blocks.

    A restarted job whose processes know this port alone waits for it, up to `seconds`: another job may have it until
    that one finds that nobody comes to it.
    """
    waits = node.is_restart and node.memory is not None
    deadline = time.monotonic() + (seconds if waits else 0.0)
    while True:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((node.root, node.port))
            listener.listen(BACKLOG)
            listener.setblocking(False)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() >= deadline:
                raise _refusal(node, error) from None
        time.sleep(RETRY_SECONDS)


def _refusal(node: NodeSpec, error: OSError) -> Stop:
    cure = {
        errno.EADDRINUSE: f"another program has this port; give another as {node.root_names.port}",
        errno.EADDRNOTAVAIL: f"no address of this host; start the scheduler where {node.root_names.address} is",
        errno.EACCES: f"ports below 1024 are root's; give a higher one as {node.root_names.port}",
    }
    stop = RestartMe if node.is_restart else UsageError
    return stop(f"scheduler: {node.root}:{node.port}: {cure.get(error.errno or 0, error.strerror)}")


def hold(address: str) -> socket.socket:
    """Return a socket bound to a free port, which keeps the port from others until ps-lite listens there.

    Two sockets may be bound to one port if both allow it and only the later one listens; ZeroMQ's do allow it.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((address, 0))
    return holder
