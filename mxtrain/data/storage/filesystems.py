"""Filesystems of fsspec, which is imported here alone, and only for an address: their settings, and calls of theirs.

Owns what differs between stores: how a tag is called, who compares it himself, and how a call ends when nothing comes.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Sequence

from mxtrain.config.values.addresses import Address, without_secrets
from mxtrain.core.errors import UsageError

_CONNECT, _IDLE = 10, 30  # seconds
_S3 = ("s3", "s3a")
_TAGS = (
    "ETag",
    "etag",
    "generation",
    "md5Hash",
    "content_md5",
    "checksum",
    "mtime",
    "LastModified",
    "last_modified",
)
_HTTP_TAGS = ("Last-Modified", "created", "modified")


@functools.lru_cache(maxsize=None)
def filesystem(scheme: str) -> Any:
    """Return fsspec's filesystem of a scheme; UsageError where its library is not installed."""
    try:
        import fsspec

        return fsspec.filesystem(scheme, **_settings(scheme))
    except ImportError as missing:
        raise UsageError(
            f"{scheme}://: needs a library ({without_secrets(str(missing))}); pip install 'mxtrain[storage]', and for "
            "gs:// gcsfs, for az:// adlfs, for hdfs:// pyarrow"
        ) from None


def _settings(scheme: str) -> dict[str, Any]:
    """Return what makes a request end when nothing comes: without it a dead connection is waited for for minutes."""
    if scheme in _S3:
        timeouts = {"connect_timeout": _CONNECT, "read_timeout": _IDLE, "max_pool_connections": 64}
        return {"config_kwargs": timeouts, "use_listings_cache": False}
    if scheme in ("http", "https"):
        import aiohttp

        return {
            "client_kwargs": {
                "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_IDLE),
                "trust_env": True,
            }
        }
    return {}


def read_range(fs: Any, path: str, start: int, end: int, tag: str, patience: float) -> bytes:
    """Return what one request for a range gives; of S3 and HTTP the server compares the tag."""
    data: bytes
    if is_conditional(fs, tag):
        if hasattr(fs, "_call_s3"):
            data = sync(fs, _s3_range, patience, fs, path, start, end, tag)
        else:
            data = call(fs, "_cat_file", "cat_file", patience, path, start, end, headers={"If-Match": tag})
    else:
        data = call(fs, "_cat_file", "cat_file", patience, path, start, end)
    return data


async def _s3_range(fs: Any, path: str, start: int, end: int, tag: str) -> bytes:
    bucket, key, _ = fs.split_path(path)
    response = await fs._call_s3(
        "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{end - 1}", IfMatch=tag, **fs.req_kw
    )
    try:
        data: bytes = await response["Body"].read()
        return data
    finally:
        response["Body"].close()


def is_conditional(fs: Any, tag: str) -> bool:
    """Return whether a store compares the tag itself; a weak one, W/"...", promises no equal bytes."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return bool({"s3", "http", "https"} & set(protocols)) and tag.startswith('"')


def tag_of(info: dict[str, Any]) -> str:
    """Return the tag that a store tells of a file, by whatever name; empty where it tells none."""
    tag = next((info[name] for name in (*_TAGS, *_HTTP_TAGS) if info.get(name)), "")
    return str(tag)


def call(fs: Any, name: str, plain_name: str, patience: float, *arguments: Any, **keywords: Any) -> Any:
    """Return a method's answer within `patience`; a filesystem of blocking calls has deadlines of its own."""
    if plain_name == "info":
        fs.invalidate_cache()
    if getattr(fs, "async_impl", False):
        return sync(fs, getattr(fs, name), patience, *arguments, **keywords)
    return getattr(fs, plain_name)(*arguments, **keywords)


def sync(fs: Any, function: Any, patience: float, *arguments: Any, **keywords: Any) -> Any:
    """Return what an asynchronous method of a filesystem comes to within `patience`."""
    import fsspec.asyn

    return fsspec.asyn.sync(fs.loop, function, *arguments, timeout=max(patience, 1.0), **keywords)


def lists_by_prefix(scheme: str) -> bool:
    """Return whether one request of a store lists the files that begin alike, with their tags."""
    return scheme in _S3


def listed(fs: Any, files: Sequence[Address], patience: float) -> dict[str, dict[str, Any]] | None:
    """Return size and tag of all files that begin as these do, by address; None where they are too many."""
    prefix = os.path.commonprefix([fs._strip_protocol(str(each)) for each in files])  # noqa: RUF071, of letters
    bucket, _, key = prefix.partition("/")
    answer = sync(fs, fs._call_s3, patience, "list_objects_v2", Bucket=bucket, Prefix=key, **fs.req_kw)
    if answer.get("IsTruncated"):
        return None
    return {f"{files[0].scheme}://{bucket}/{each['Key']}": each for each in answer.get("Contents", [])}
