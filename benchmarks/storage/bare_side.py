"""The reading of ranges of the same files by bare connections, thrown away as they come: what a link gives.

python -m benchmarks.storage.bare_side PORT /BUCKET/NAME=BYTES...
"""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import sys
import threading
import time

RANGE_BYTES, AT_ONCE = 8 << 20, 8
# The server takes any signature, but none is refused.
SCOPE = "tests/20260101/us-east-1/s3/aws4_request"
HEADERS = {"Authorization": f"AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host, Signature=0"}


def main() -> None:
    port, *files = sys.argv[1:]
    ranges = [
        (name, start, min(start + RANGE_BYTES, int(size)))
        for name, _, size in (each.rpartition("=") for each in files)
        for start in range(0, int(size), RANGE_BYTES)
    ]
    own = threading.local()

    def read(span: tuple[str, int, int]) -> int:
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        name, start, end = span
        own.connection.request("GET", name, headers={**HEADERS, "Range": f"bytes={start}-{end - 1}"})
        answer = own.connection.getresponse()
        count = 0
        while data := answer.read(1 << 18):
            count += len(data)
        if answer.status != 206 or count != end - start:
            raise SystemExit(f"{name}: {answer.status}, {count} bytes")
        return count

    began = time.time()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        count = sum(pool.map(read, ranges))
    print(json.dumps({"seconds": time.time() - began, "bytes": count}))


if __name__ == "__main__":
    main()
