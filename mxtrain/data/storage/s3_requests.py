"""The requests to S3 that a run waits for: a list of names with their tags, and a range of bytes.

By botocore, on which s3fs is built and whose credentials and settings it takes: it is imported in half of the time, and
a byte takes half of the CPU time. All else goes by s3fs.
"""

from __future__ import annotations

import functools
import re
from typing import Any

CONNECT, IDLE = 10, 30  # seconds after which a request ends when nothing comes
CONNECTIONS = 64
_BUCKET = re.compile(r"[^/]+://(arn:[^/]+/[^/]+|[^/]*)/?(.*)", re.DOTALL)  # of an access point, or a name


@functools.lru_cache(maxsize=None)
def client(idle: float) -> Any:
    """Return a client whose requests end when nothing comes for so many seconds, and are not tried again."""
    import botocore.config
    import botocore.session

    settings = botocore.config.Config(
        connect_timeout=min(idle, CONNECT),
        read_timeout=idle,
        max_pool_connections=CONNECTIONS,
        retries={"max_attempts": 0},
    )
    return botocore.session.get_session().create_client("s3", config=settings)


def read_range(client: Any, address: str, start: int, end: int, tag: str) -> bytes:
    """Return the bytes from `start` to `end`; the server compares the tag, where there is one."""
    bucket, key = _bucket_and_key(address)
    condition = {"IfMatch": tag} if tag else {}
    response = client.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{end - 1}", **condition)
    with response["Body"] as body:
        data: bytes = body.read()
    return data


def listed(client: Any, prefix: str) -> dict[str, dict[str, Any]] | None:
    """Return size and tag of all files whose addresses begin so; None where one request does not list them all."""
    bucket, key = _bucket_and_key(prefix)
    if not bucket or not prefix.endswith(f"/{key}"):  # a pattern of buckets
        return None
    answer = client.list_objects_v2(Bucket=bucket, Prefix=key)
    if answer["IsTruncated"]:
        return None
    start = prefix[: len(prefix) - len(key)]
    return {f"{start}{each['Key']}": each for each in answer.get("Contents", [])}


def _bucket_and_key(address: str) -> tuple[str, str]:
    match = _BUCKET.fullmatch(address)
    assert match is not None
    return match[1], match[2]
