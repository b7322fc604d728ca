"""A folder here for each remote .rec, with the small files beside it as they are in the store now.

    FOLDER/files/s3/bucket/photos/DIGEST/train.rec   its address, size and tag, in three lines
    FOLDER/files/s3/bucket/photos/DIGEST/train.idx   and the other files beside it, whole

DIGEST is that of the sizes and tags of all of them. Whoever wants a file beside a .rec finds it there, by its local
path. The names of sources (.sources.tsv), which serve messages alone, stay in the store.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Sequence

from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import OutOfResources
from mxtrain.data.storage import stores
from mxtrain.data.storage.options import StorageOptions
from mxtrain.data.storage.stores import FileVersion

TOKENS, TOKENIZER = ".tokens.json", "tokenizer.json"  # the second lies beside the first alone


class Snapshot(NamedTuple):
    """A remote .rec, and the local path beside which the files that belong to it lie."""

    version: FileVersion
    path: Path
    known: Mapping[Address, FileVersion]  # of all that exist


def beside(address: Address, suffixes: Sequence[str]) -> list[Address]:
    """Return the addresses of a .rec and of what may lie beside it."""
    return [address, *map(address.with_suffix, suffixes)]


def of_rec(
    address: Address,
    suffixes: Sequence[str],
    options: StorageOptions,
    versions: Mapping[Address, FileVersion] | None = None,
    later: str = "",
) -> Snapshot:
    """Return a .rec and the files beside it with these suffixes; DataError where it does not exist.

    `versions` has those of all that exist, where the caller knows them. The one with the suffix `later` is left where
    it is until somebody wants to `fetch` it.
    """
    files = beside(address, suffixes)
    if versions is None:
        versions = stores.versions(files, options.patience)
    version = versions.get(address) or stores.existing(address, options.patience)
    known = {address: version, **{each: versions[each] for each in files if each in versions}}
    if address.with_suffix(TOKENS) in known:
        known.update(stores.versions([address.with_name(TOKENIZER)], options.patience))
    folder = _folder(address, known, options)
    with _writing_into(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / address.name).write_text(f"{address}\n{version.num_bytes}\n{version.tag}\n")
        wanted = [each for each in known if each != address and each.suffix != later]
        _download_all(known, {each: folder / each.name for each in wanted}, options)
    return Snapshot(version, folder / address.name, known)


def fetch(snapshot: Snapshot, address: Address, options: StorageOptions) -> bool:
    """Have a file here that was left for later; return whether there is one."""
    if address not in snapshot.known:
        return False
    with _writing_into(snapshot.path.parent):
        _download(address, snapshot.known[address], snapshot.path.with_name(address.name), options)
    return True


@contextlib.contextmanager
def _writing_into(folder: Path) -> Iterator[None]:
    """Say what to do where the folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise OutOfResources(
            f"{folder}: cannot be written ({error.strerror}); make room, or give another --storage-cache"
        ) from None


def local_copy(address: Address, options: StorageOptions) -> Path:
    """Return the local path of a whole remote file, downloaded unless it is there already."""
    version = stores.existing(address, options.patience)
    folder = _folder(address, {address: version}, options)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _download(address, version, folder / address.name, options)
    return folder / address.name


def local_folder(address: Address, options: StorageOptions) -> Path | None:
    """Return a local copy of a folder with all files under it; None where there is no file under it."""
    known = stores.versions(stores.under(address, options.patience), options.patience)
    if not known:
        return None
    folder = _folder(address, known, options) / address.name
    targets = {each: folder / each.relative_to(address) for each in known}
    for parent in {target.parent for target in targets.values()}:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _download_all(known, targets, options)
    return folder


def _folder(address: Address, known: dict[Address, FileVersion], options: StorageOptions) -> Path:
    rows = sorted((str(each), *version) for each, version in known.items())
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    parts = str(address.parent).replace("://", "/", 1).split("/")
    return Path(options.cache_folder, "files", *parts, digest)


def _download_all(
    versions: Mapping[Address, FileVersion], targets: Mapping[Address, Path], options: StorageOptions
) -> None:
    """Have files on disk at their targets."""
    with concurrent.futures.ThreadPoolExecutor(stores.AT_ONCE) as pool:
        list(pool.map(lambda each: _download(each, versions[each], targets[each], options), targets))


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
