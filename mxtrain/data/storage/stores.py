"""Requests to object stores: what a file is, a range of its bytes, a list of names, an upload.

Owns every request, how often it is tried again, and what an error means in words. A file has a tag, which changes with
its content: a range is that of the file with this tag, or `Changed`. Keeps nothing: `block_cache.py` does.
"""

from __future__ import annotations

import concurrent.futures
import logging
import os
import re
import time
from typing import Any, Callable, NamedTuple, Sequence, TypeVar

from mxtrain.config.values.addresses import Address, without_secrets
from mxtrain.core.errors import DATA, DataError, Stop, UsageError
from mxtrain.data.storage import filesystems

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
AT_ONCE = 8  # requests of a process ahead of their use, or for small files


class FileVersion(NamedTuple):
    """A file as it is in the store."""

    num_bytes: int
    tag: str


class StoreError(Stop):
    """A store that does not give what was asked for: no record's fault, so that none is passed over for another."""

    exit_code = DATA


class Changed(StoreError):
    """The file in the store is no longer the one that was opened."""


class Refused(StoreError):
    """Access that the store does not give."""


def version(address: Address, patience: float) -> FileVersion | None:
    """Return the size and the tag of a file; None where there is no such file."""
    try:
        info = _patiently(address, lambda: filesystems.info(address, patience), patience)
    except FileNotFoundError:
        return None
    size = info.get("size")
    if info.get("type") == "directory":
        raise DataError(
            f"{address} is a folder: give a .rec file in it, or a pattern such as {address}/*.rec"
        )
    if size is None:
        raise DataError(f"{address}: its server does not say how long it is; serve it as a file, with ranges")
    return FileVersion(int(size), filesystems.tag_of(info))


def existing(address: Address, patience: float) -> FileVersion:
    """Return the size and the tag of a file; DataError where there is no such file."""
    found = version(address, patience)
    if found is None:
        raise _missing(address)
    return found


def _missing(address: Address) -> DataError:
    return DataError(f"{address} does not exist")


def versions(addresses: Sequence[Address], patience: float) -> dict[Address, FileVersion]:
    """Return the versions of those of these files that exist; of S3's in one folder by one list of names."""
    folders: dict[Address, list[Address]] = {}
    for address in addresses:
        folders.setdefault(Address(address.parent), []).append(address)
    known: dict[Address, FileVersion] = {}
    single: list[Address] = []
    for files in folders.values():
        listed = _listed_versions(files, patience) if len(files) > 1 else None
        if listed is None:
            single += files
        else:
            known.update((each, listed[each]) for each in files if each in listed)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        each_version = pool.map(lambda each: version(each, patience), single)
        known.update((each, found) for each, found in zip(single, each_version) if found is not None)
    return known


def _listed_versions(files: Sequence[Address], patience: float) -> dict[Address, FileVersion] | None:
    """Return the versions of all files that begin as these do; None where no one request lists them."""
    prefix = os.path.commonprefix([str(each) for each in files])  # noqa: RUF071, of letters
    return _beginning_with(prefix, files[0], patience)


def _beginning_with(prefix: str, like: Address, patience: float) -> dict[Address, FileVersion] | None:
    """Return the versions of all files whose addresses begin so; None where no one request lists them."""
    try:
        rows = _patiently(like, lambda: filesystems.listed(like.scheme, prefix, patience), patience)
    except FileNotFoundError:
        return {}
    except Refused:  # a list may be another right than a file
        return None
    if rows is None:
        return None
    return {Address(name): FileVersion(row["Size"], filesystems.tag_of(row)) for name, row in rows.items()}


def read(address: Address, start: int, end: int, known: FileVersion, patience: float) -> bytes:
    """Return the bytes from `start` to `end` of a file that is `known`; `Changed` where it is another one by now."""

    def request() -> bytes:
        data = filesystems.read_range(address, start, end, known.tag, patience)
        if len(data) != end - start:
            raise OSError(f"{len(data)} bytes came in place of {end - start}")
        if (
            not filesystems.is_conditional(address, known.tag)
            and filesystems.tag_of(filesystems.info(address, patience)) != known.tag
        ):
            raise Changed(_changed(address))
        return data

    try:
        return _patiently(address, request, patience)
    except FileNotFoundError:
        raise StoreError(
            f"{address} is gone from its store; put it back, and give the same command again"
        ) from None


def matching(pattern: Address, patience: float) -> tuple[list[Address], dict[Address, FileVersion]]:
    """Return the files that match a pattern, sorted, and the versions of all that begin like them.

    There are no versions where no one request lists them all.
    """
    prefix = re.split(r"[*?\[]", str(pattern))[0]
    known = None if "**" in pattern.parts else _beginning_with(prefix, pattern, patience)
    if known is None:
        return _named(pattern, lambda fs, path: fs.glob(path), patience), {}
    found = [each for each in known if each.match(str(pattern)) and len(each.parts) == len(pattern.parts)]
    return sorted(found), known


def under(address: Address, patience: float) -> list[Address]:
    """Return the files under a folder, at any depth, sorted; none where there is no such folder."""
    try:
        return _named(address, lambda fs, path: fs.find(path), patience)
    except FileNotFoundError:
        return []


def _named(address: Address, request: Callable[[Any, str], list[str]], patience: float) -> list[Address]:
    """Return the files that a filesystem names, sorted; HTTP's names are addresses already."""

    def uncached(fs: Any, path: str) -> list[str]:
        fs.invalidate_cache()
        return request(fs, path)

    names = _by_filesystem(address, uncached, patience)
    if address.scheme in ("http", "https"):
        return sorted(map(Address, names))
    return sorted(Address(f"{address.scheme}://{name.lstrip('/')}") for name in names)


def write(address: Address, path: str, patience: float) -> None:
    """Upload a local file; the store shows it when it is whole."""
    if address.scheme in ("http", "https"):
        raise UsageError(f"{address}: nothing is written by {address.scheme}://; give an address of a store")
    _by_filesystem(address, lambda fs, target: fs.put_file(path, target), patience)


def remove(address: Address, patience: float) -> None:
    """Remove a file from its store, if it is there."""
    try:
        _by_filesystem(address, lambda fs, path: fs.rm_file(path), patience)
    except FileNotFoundError:
        return


def copy(address: Address, path: str, patience: float) -> None:
    """Download a whole file."""
    try:
        _by_filesystem(address, lambda fs, source: fs.get_file(source, path), patience)
    except FileNotFoundError:
        raise _missing(address) from None


def _by_filesystem(address: Address, request: Callable[[Any, str], Answer], patience: float) -> Answer:
    """Return what a request to a filesystem of fsspec, for a path there, gives."""
    return _patiently(address, lambda: request(*filesystems.path_of(address)), patience)


def _patiently(address: Address, request: Callable[[], Answer], patience: float) -> Answer:
    """Return what a request gives, tried again as long as `patience` lasts; errors that stay are words at once."""
    deadline, pause = time.monotonic() + patience, FIRST_PAUSE
    while True:
        try:
            return request()
        except (Stop, FileNotFoundError):
            raise
        except Exception as error:
            _refuse(address, error)
            if time.monotonic() + pause > deadline:
                raise StoreError(
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
        raise Refused(
            f"{address}: its store refuses access ({in_words(error)}); look at the credentials, as its own tools take "
            "them, and at the rights on this file"
        ) from None
    if type(error).__name__ == "ParamValidationError":  # botocore's, before any request
        raise UsageError(
            f"{address}: is no address of a file in its store; look at the name of the bucket"
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
