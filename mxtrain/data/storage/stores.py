"""Requests to object stores, by fsspec: what a file is, a range of its bytes, a list of names, an upload.

Owns every request, how often it is tried again, and what an error means in words. A file has a tag, which changes with
its content: a range is that of the file with this tag, or `Changed`. fsspec is imported here alone, and only for an
address. Keeps nothing: `block_cache.py` does.
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, Callable, NamedTuple, TypeVar

from mxtrain.config.values.addresses import Address, without_secrets
from mxtrain.core.errors import DataError, Stop, UsageError

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
_CONNECT, _IDLE = 10, 30  # seconds
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


class FileVersion(NamedTuple):
    """A file as it is in the store."""

    num_bytes: int
    tag: str


class Changed(DataError):
    """The file in the store is no longer the one that was opened."""


def version(address: Address, patience: float) -> FileVersion | None:
    """Return the size and the tag of a file; None where there is no such file."""
    try:
        info = _patiently(address, lambda fs, path: _call(fs, "_info", "info", patience, path), patience)
    except FileNotFoundError:
        return None
    size = info.get("size")
    if info.get("type") == "directory":
        raise DataError(
            f"{address} is a folder: give a .rec file in it, or a pattern such as {address}/*.rec"
        )
    if size is None:
        raise DataError(f"{address}: its server does not say how long it is; serve it as a file, with ranges")
    return FileVersion(int(size), _tag(info))


def read(address: Address, start: int, end: int, known: FileVersion, patience: float) -> bytes:
    """Return the bytes from `start` to `end` of a file that is `known`; `Changed` where it is another one by now."""

    def request(fs: Any, path: str) -> bytes:
        data: bytes = _range(fs, path, start, end, known.tag, patience)
        if len(data) != end - start:
            raise OSError(f"{len(data)} bytes came in place of {end - start}")
        if (
            not _is_conditional(fs, known.tag)
            and _tag(_call(fs, "_info", "info", patience, path)) != known.tag
        ):
            raise Changed(_changed(address))
        return data

    try:
        return _patiently(address, request, patience)
    except FileNotFoundError:
        raise DataError(
            f"{address} is gone from its store; put it back, and give the same command again"
        ) from None


def matching(address: Address, patience: float) -> list[Address]:
    """Return the files that match a pattern, sorted."""
    return _listed(address, lambda fs, path: fs.glob(path), patience)


def under(address: Address, patience: float) -> list[Address]:
    """Return the files under a folder, at any depth, sorted; none where there is no such folder."""
    try:
        return _listed(address, lambda fs, path: fs.find(path), patience)
    except FileNotFoundError:
        return []


def _listed(address: Address, request: Callable[[Any, str], list[str]], patience: float) -> list[Address]:
    """Return the files that a request lists, sorted; HTTP's names are addresses already."""

    def uncached(fs: Any, path: str) -> list[str]:
        fs.invalidate_cache()
        return request(fs, path)

    names = _patiently(address, uncached, patience)
    if address.scheme in ("http", "https"):
        return sorted(map(Address, names))
    return sorted(Address(f"{address.scheme}://{name.lstrip('/')}") for name in names)


def write(address: Address, path: str, patience: float) -> None:
    """Upload a local file; the store shows it when it is whole."""
    if address.scheme in ("http", "https"):
        raise UsageError(f"{address}: nothing is written by {address.scheme}://; give an address of a store")
    _patiently(address, lambda fs, target: fs.put_file(path, target), patience)


def remove(address: Address, patience: float) -> None:
    """Remove a file from its store, if it is there."""
    try:
        _patiently(address, lambda fs, path: fs.rm_file(path), patience)
    except FileNotFoundError:
        return


def copy(address: Address, path: str, patience: float) -> None:
    """Download a whole file."""
    try:
        _patiently(address, lambda fs, source: fs.get_file(source, path), patience)
    except FileNotFoundError:
        raise DataError(f"{address} does not exist") from None


def _patiently(address: Address, request: Callable[[Any, str], Answer], patience: float) -> Answer:
    """Return what a request gives, tried again as long as `patience` lasts; errors that stay are words at once."""
    fs, deadline, pause = filesystem(address.scheme), time.monotonic() + patience, FIRST_PAUSE
    path = fs._strip_protocol(str(address))
    while True:
        try:
            return request(fs, path)
        except (Stop, FileNotFoundError):
            raise
        except Exception as error:
            _refuse(address, error)
            if time.monotonic() + pause > deadline:
                raise DataError(
                    f"{address}: its store does not answer, tried for {patience:.0f} s ({in_words(error)}); give the "
                    "same command again when it does, or more --storage-patience"
                ) from None
            if pause > 1:
                logger.warning("%s: %s; it is tried again", address, in_words(error))
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _refuse(address: Address, error: Exception) -> None:
    """Raise what an error means where it will not go away by itself."""
    status, code = _status(error)
    if status == 404 or code in ("404", "NoSuchKey", "NoSuchBucket"):
        raise FileNotFoundError(str(address)) from None
    if status == 412 or code in ("412", "PreconditionFailed", "ConditionNotMet"):
        raise Changed(_changed(address)) from None
    if status in (401, 403) or isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        raise DataError(
            f"{address}: its store refuses access ({in_words(error)}); look at the credentials, as its own tools take "
            "them, and at the rights on this file"
        ) from None
    if isinstance(error, (TypeError, AttributeError, NotImplementedError, ImportError)):
        raise error


def _status(error: BaseException) -> tuple[int, str]:
    """Return the HTTP status and the store's own code of an error, as far as its library tells."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
    code = ""
    if isinstance(response, dict):
        code = str(response.get("Error", {}).get("Code", ""))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    else:
        status = getattr(error, "status", 0) or getattr(error, "code", 0)
    return (int(status) if str(status).isdecimal() else 0), code


def in_words(error: BaseException) -> str:
    """Return an error of a library in one line, without credentials."""
    lines = without_secrets(str(error)).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines and lines[0] else type(error).__name__


def _changed(address: Address) -> str:
    return (
        f"{address} has been replaced in its store since it was opened; begin again with the new file, or put the old "
        "one back"
    )


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
    if scheme in ("s3", "s3a"):
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


def _range(fs: Any, path: str, start: int, end: int, tag: str, patience: float) -> bytes:
    """Return what one request for a range gives; of S3 and HTTP the server compares the tag."""
    data: bytes
    if _is_conditional(fs, tag):
        if hasattr(fs, "_call_s3"):
            data = _sync(fs, _s3_range, patience, fs, path, start, end, tag)
        else:
            data = _call(fs, "_cat_file", "cat_file", patience, path, start, end, headers={"If-Match": tag})
    else:
        data = _call(fs, "_cat_file", "cat_file", patience, path, start, end)
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


def _is_conditional(fs: Any, tag: str) -> bool:
    """Return whether a store compares the tag itself; a weak one, W/"...", promises no equal bytes."""
    protocols = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
    return bool({"s3", "http", "https"} & set(protocols)) and tag.startswith('"')


def _tag(info: dict[str, Any]) -> str:
    tag = next((info[name] for name in (*_TAGS, *_HTTP_TAGS) if info.get(name)), "")
    return str(tag)


def _call(fs: Any, name: str, plain_name: str, patience: float, *arguments: Any, **keywords: Any) -> Any:
    """Return a method's answer within `patience`; a filesystem of blocking calls has deadlines of its own."""
    if plain_name == "info":
        fs.invalidate_cache()
    if getattr(fs, "async_impl", False):
        return _sync(fs, getattr(fs, name), patience, *arguments, **keywords)
    return getattr(fs, plain_name)(*arguments, **keywords)


def _sync(fs: Any, function: Any, patience: float, *arguments: Any, **keywords: Any) -> Any:
    import fsspec.asyn

    return fsspec.asyn.sync(fs.loop, function, *arguments, timeout=max(patience, 1.0), **keywords)
