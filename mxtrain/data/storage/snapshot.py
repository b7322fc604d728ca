"""A folder here for each remote .rec, with the small files beside it as they are in the store now.

    FOLDER/files/s3/bucket/photos/DIGEST/train.rec   its address, size and tag, in three lines
    FOLDER/files/s3/bucket/photos/DIGEST/train.idx   and the other files beside it, whole

DIGEST is that of the sizes and tags of all of them. Whoever wants a file beside a .rec finds it there, by its local
path. The names of sources (.sources.tsv), which serve messages alone, stay in the store.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import tempfile
from pathlib import Path
from typing import NamedTuple, Sequence

from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import DataError, OutOfResources
from mxtrain.data.storage import stores
from mxtrain.data.storage.options import StorageOptions
from mxtrain.data.storage.stores import FileVersion

DOWNLOADS = 8  # at once
TOKENIZER = "tokenizer.json"


class Snapshot(NamedTuple):
    """A remote .rec, and the local path beside which the files that belong to it lie."""

    version: FileVersion
    path: Path


def of_rec(address: Address, suffixes: Sequence[str], options: StorageOptions) -> Snapshot:
    """Return a .rec and the files beside it with these suffixes; DataError where it does not exist."""
    beside = [address, *map(address.with_suffix, suffixes), address.with_name(TOKENIZER)]
    with concurrent.futures.ThreadPoolExecutor(len(beside)) as pool:
        versions = list(pool.map(lambda each: stores.version(each, options.patience), beside))
        version = versions[0]
        if version is None:
            raise DataError(f"{address} does not exist")
        known = {each: found for each, found in zip(beside, versions) if found is not None}
        folder = _folder(address, known, options)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / address.name).write_text(f"{address}\n{version.num_bytes}\n{version.tag}\n")
            wanted = [each for each in known if each != address]
            list(pool.map(lambda each: _download(each, known[each], folder / each.name, options), wanted))
        except OSError as error:
            raise OutOfResources(
                f"{folder}: cannot be written ({error.strerror}); make room, or give another --storage-cache"
            ) from None
    return Snapshot(version, folder / address.name)


def local_copy(address: Address, options: StorageOptions) -> Path:
    """Return the local path of a whole remote file, downloaded unless it is there already."""
    version = stores.version(address, options.patience)
    if version is None:
        raise DataError(f"{address} does not exist")
    folder = _folder(address, {address: version}, options)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _download(address, version, folder / address.name, options)
    return folder / address.name


def local_folder(address: Address, options: StorageOptions) -> Path | None:
    """Return a local copy of a folder with all files under it; None where there is no file under it."""
    names = stores.under(address, options.patience)
    with concurrent.futures.ThreadPoolExecutor(DOWNLOADS) as pool:
        versions = list(pool.map(lambda each: stores.version(each, options.patience), names))
        known = {each: version for each, version in zip(names, versions) if version is not None}
        if not known:
            return None
        folder = _folder(address, known, options) / address.name
        targets = {each: folder / each.relative_to(address) for each in known}
        for parent in {target.parent for target in targets.values()}:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        list(pool.map(lambda each: _download(each, known[each], targets[each], options), known))
    return folder


def _folder(address: Address, known: dict[Address, FileVersion], options: StorageOptions) -> Path:
    rows = sorted((str(each), *version) for each, version in known.items())
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    parts = str(address.parent).replace("://", "/", 1).split("/")
    return Path(options.cache_folder, "files", *parts, digest)


def _download(address: Address, version: FileVersion, path: Path, options: StorageOptions) -> None:
    """Have a file on disk, whole; it appears by a rename."""
    if path.exists() and path.stat().st_size == version.num_bytes:
        return
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            for start in range(0, version.num_bytes, options.block_bytes):
                end = min(start + options.block_bytes, version.num_bytes)
                file.write(stores.read(address, start, end, version, options.patience))
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
