"""The benchmark of object storage: its bars, and a link that takes its time."""

from __future__ import annotations

import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Iterator

import pytest

from benchmarks.storage import __main__ as storage
from benchmarks.storage.__main__ import BARE, OURS, THEIRS, Turn
from benchmarks.storage.link import Link

CONTENT = bytes(300_000)


@pytest.fixture
def port() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_link_takes_its_delay_and_its_rate(port: int) -> None:
    with Link(port, delay=0.2, bytes_per_second=1e6) as link:
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{link.port}/", timeout=20) as answer:
            assert answer.read() == CONTENT
        assert time.monotonic() - began >= 0.2 + len(CONTENT) / 1e6
        assert link.num_requests == 1 and link.num_bytes > len(CONTENT)


def test_bars_are_those_of_the_link_and_of_the_other_side() -> None:
    rows = {
        BARE: Turn(0.0, 50.0, 0.0, 0.0),
        OURS: Turn(430.0, 48.0, 60.0, 2.5),
        THEIRS: Turn(300.0, 33.0, 63.0, 9.0),
    }
    assert all(bar.is_met for bar in storage._bars(rows))
    worse = storage._bars({**rows, OURS: Turn(290.0, 47.0, 64.0, 10.0)})
    assert not any(bar.is_met for bar in worse)
    assert [bar.found for bar in storage._bars({BARE: rows[BARE]})] == [None] * 5
