"""A link to a server with a delay, a bandwidth and faults: a TCP proxy, in threads of this process or as a program.

    python -m benchmarks.storage.link TARGET_PORT --delay 0.1 --megabytes-per-second 50

prints its port, and for each line of its input how many requests and bytes there were. A request waits for the delay
once; what all connections carry back shares the bandwidth.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
import threading
import time

PIECE = 1 << 18


class Link:
    """The proxy; its fields may be changed while it runs."""

    def __init__(self, target_port, delay=0.0, bytes_per_second=0.0):
        self.target_port, self.delay, self.bytes_per_second = target_port, delay, bytes_per_second
        self.is_down = False  # connections are closed, new ones too
        self.cut_after = None  # bytes of an answer after which its connection is closed, once
        self.num_bytes = self.num_requests = 0
        self._free_at = 0.0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.is_down = True
        self._listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self.target_port))
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answers, args=(server, client), daemon=True).start()

    def _requests(self, client, server):
        with contextlib.suppress(OSError), client, server:
            while data := client.recv(PIECE):
                if data[:4] in (b"GET ", b"HEAD", b"PUT ", b"POST", b"DELE"):
                    self.num_requests += 1
                    time.sleep(self.delay)
                if self.is_down:
                    break
                server.sendall(data)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)

    def _answers(self, server, client):
        with contextlib.suppress(OSError), client, server:
            num_bytes = 0
            while data := server.recv(PIECE):
                self._wait(len(data))
                num_bytes += len(data)
                if self.is_down or (self.cut_after is not None and num_bytes > self.cut_after):
                    self.cut_after = None
                    break
                client.sendall(data)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)

    def _wait(self, num_bytes):
        """Wait until the link has carried these bytes too."""
        with self._lock:
            self.num_bytes += num_bytes
            if not self.bytes_per_second:
                return
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + num_bytes / self.bytes_per_second
            pause = self._free_at - now
        time.sleep(max(0.0, pause))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target_port", type=int)
    parser.add_argument("--delay", type=float, default=0.1)
    parser.add_argument("--megabytes-per-second", type=float, default=50.0)
    options = parser.parse_args()
    link = Link(options.target_port, options.delay, options.megabytes_per_second * 1e6)
    print(link.port, flush=True)
    for _ in sys.stdin:
        print(json.dumps([link.num_requests, link.num_bytes]), flush=True)


if __name__ == "__main__":
    main()
