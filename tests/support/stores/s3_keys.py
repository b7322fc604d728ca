"""Keys of moto's S3 server, which takes any until it is told otherwise."""

from __future__ import annotations

import contextlib
import urllib.request
from typing import Iterator


@contextlib.contextmanager
def checking_keys(port: int) -> Iterator[None]:
    """Have a server refuse keys that it has not given to anybody, as are those of the tests."""
    _take_any(port, "0")
    try:
        yield
    finally:
        _take_any(port, "inf")


def _take_any(port: int, num_requests: str) -> None:
    url = f"http://127.0.0.1:{port}/moto-api/reset-auth"
    request = urllib.request.Request(url, num_requests.encode(), {"Content-Type": "text/plain"})
    urllib.request.urlopen(request, timeout=20).close()
