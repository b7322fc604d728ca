"""The limit: only sockets and an addition. `server PORT` adds the flat arrays of two `client PORT`s.

Both ends send and receive at once. A chunk's sum is on its way as soon as both clients have sent that chunk, and
takes its place at the client, in the memory that it was sent from.
"""

from __future__ import annotations

import itertools
import math
import socket
import sys
import threading
import time
from queue import SimpleQueue
from typing import Callable

import numpy as np

from benchmarks.comm.measure import expected, take_turns
from benchmarks.comm.resnet50 import shapes

NUM_CLIENTS = 2
CHUNK = 64 * 1024  # elements
PATIENCE_SECONDS = 30


def serve(port: int) -> None:
    with socket.create_server(("127.0.0.1", port), backlog=NUM_CLIENTS) as listener:
        clients = [connected(listener.accept()[0]) for _ in range(NUM_CLIENTS)]
    received = [chunks(np.empty(size(), np.float32)) for _ in clients]
    # Apart: a client may be a step ahead while the other one still gets the last step's sums.
    sums = chunks(np.empty(size(), np.float32))
    arrived: list[SimpleQueue[int | None]] = [SimpleQueue() for _ in clients]
    summed: list[SimpleQueue[int | None]] = [SimpleQueue() for _ in clients]

    def receive(client: int) -> None:
        for number in itertools.cycle(range(len(sums))):
            if not read_into(clients[client], received[client][number]):
                break
            arrived[client].put(number)
        arrived[client].put(None)

    def send(client: int) -> None:
        for number in iter(summed[client].get, None):
            clients[client].sendall(sums[number])

    threads = [started(call, client) for client in range(NUM_CLIENTS) for call in (receive, send)]
    number: int | None = 0
    while number is not None:
        number, _ = (queue.get() for queue in arrived)
        if number is not None:
            np.add(received[0][number], received[1][number], out=sums[number])
        for queue in summed:
            queue.put(number)
    for thread in threads:
        thread.join()


def work(port: int) -> None:
    flat = np.ones(size(), np.float32)
    server = connected(patiently(lambda: socket.create_connection(("127.0.0.1", port))))

    def reduce() -> None:
        sending = started(server.sendall, flat)
        for chunk in chunks(flat):
            if not read_into(server, chunk):
                raise ConnectionError("the server has gone")
        sending.join()

    take_turns(lambda: flat.fill(1), reduce, lambda: bool((flat == expected(NUM_CLIENTS)).all()))


def size() -> int:
    return sum(math.prod(shape) for shape in shapes())


def chunks(flat: np.ndarray) -> list[np.ndarray]:
    return [flat[begin : begin + CHUNK] for begin in range(0, flat.size, CHUNK)]


def read_into(connection: socket.socket, chunk: np.ndarray) -> bool:
    """Read, and return whether there was anything to read."""
    left = memoryview(chunk).cast("B")
    while left:
        count = connection.recv_into(left, 0, socket.MSG_WAITALL)
        if count == 0:
            return False
        left = left[count:]
    return True


def connected(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def started(call: Callable[..., object], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=call, args=arguments, daemon=True)
    thread.start()
    return thread


def patiently(connect: Callable[[], socket.socket]) -> socket.socket:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return connect()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    {"server": serve, "client": work}[sys.argv[1]](int(sys.argv[2]))
