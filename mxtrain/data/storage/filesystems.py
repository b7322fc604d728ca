"""Filesystems of fsspec, which is imported here alone, and only for an address: their settings, and calls of theirs.

Owns what differs between stores: how a tag is called, who compares it himself, how a call ends when nothing comes, and
which requests of S3 go another way (`s3_requests.py`).
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Iterator

from mxtrain.config.values.addresses import Address, without_secrets
from mxtrain.core.errors import UsageError
from mxtrain.data.storage import s3_requests
from mxtrain.data.storage.s3_requests import CONNECT, CONNECTIONS, IDLE

_S3 = ("s3", "s3a")
_HTTP = ("http", "https")
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
    with _library_of(scheme):
        import fsspec

        return fsspec.filesystem(scheme, **_settings(scheme))


@contextlib.contextmanager
def _library_of(scheme: str) -> Iterator[None]:
    """Say which library is not installed."""
    try:
        yield
    except ImportError as missing:
        raise UsageError(
            f"{scheme}://: needs a library ({without_secrets(str(missing))}); pip install 'mxtrain[storage]', and for "
            "gs:// gcsfs, for az:// adlfs, for hdfs:// pyarrow"
        ) from None


def _settings(scheme: str) -> dict[str, Any]:
    """Return what makes a request end when nothing comes: without it a dead connection is waited for for minutes."""
    if scheme in _S3:
        timeouts = {"connect_timeout": CONNECT, "read_timeout": IDLE, "max_pool_connections": CONNECTIONS}
        return {"config_kwargs": timeouts, "use_listings_cache": False}
    if scheme in _HTTP:
        import aiohttp

        return {
            "client_kwargs": {
                "timeout": aiohttp.ClientTimeout(total=None, sock_connect=CONNECT, sock_read=IDLE),
                "trust_env": True,
            }
        }
    return {}


def path_of(address: Address) -> tuple[Any, str]:
    """Return the filesystem of an address, and its path there."""
    fs = filesystem(address.scheme)
    return fs, fs._strip_protocol(str(address))


def read_range(address: Address, start: int, end: int, tag: str, patience: float) -> bytes:
    """Return what one request for a range gives; of S3 and HTTP the server compares the tag."""
    compared = tag if is_conditional(address, tag) else ""
    if address.scheme in _S3:
        return s3_requests.read_range(_s3_client(patience), str(address), start, end, compared)
    fs, path = path_of(address)
    headers = {"headers": {"If-Match": compared}} if compared else {}
    data: bytes = call(fs, "_cat_file", "cat_file", patience, path, start, end, **headers)
    return data


def is_conditional(address: Address, tag: str) -> bool:
    """Return whether a store compares the tag itself; a weak one, W/"...", promises no equal bytes."""
    return address.scheme in (*_S3, *_HTTP) and tag.startswith('"')


def info(address: Address, patience: float) -> dict[str, Any]:
    """Return what a store tells of a file, or of a folder."""
    fs, path = path_of(address)
    found: dict[str, Any] = call(fs, "_info", "info", patience, path)
    return found


def tag_of(info: dict[str, Any]) -> str:
    """Return the tag that a store tells of a file, by whatever name; empty where it tells none."""
    tag = next((info[name] for name in (*_TAGS, *_HTTP_TAGS) if info.get(name)), "")
    return str(tag)


def call(fs: Any, name: str, plain_name: str, patience: float, *arguments: Any, **keywords: Any) -> Any:
    """Return a method's answer within `patience`; a filesystem of blocking calls has deadlines of its own."""
    if plain_name == "info":
        fs.invalidate_cache()
    if getattr(fs, "async_impl", False):
        import fsspec.asyn

        patience = max(patience, 1.0)
        return fsspec.asyn.sync(fs.loop, getattr(fs, name), *arguments, timeout=patience, **keywords)
    return getattr(fs, plain_name)(*arguments, **keywords)


def listed(scheme: str, prefix: str, patience: float) -> dict[str, dict[str, Any]] | None:
    """Return size and tag of all files whose addresses begin so; None where no one request lists them."""
    if scheme not in _S3:
        return None
    return s3_requests.listed(_s3_client(patience), prefix)


def _s3_client(patience: float) -> Any:
    with _library_of("s3"):
        return s3_requests.client(max(1.0, min(patience, IDLE)))
