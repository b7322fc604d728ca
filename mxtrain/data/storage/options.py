"""Settings of object storage: where blocks are kept on disk, how many, and how long a store may be away."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from mxtrain.config import Data

BLOCK_BYTES = 8 << 20  # of one request, and of a chunk of --order windows
LOOKAHEAD_BYTES = 160 << 20  # of samples that are requested before they are used


@dataclasses.dataclass(frozen=True)
class StorageOptions:
    """Settings that change no sample."""

    folder: str = ""  # of the cache; empty: the user's
    cache_bytes: int = 20 << 30
    patience: float = 300.0  # seconds for which a request is tried again
    block_bytes: int = BLOCK_BYTES

    @property
    def cache_folder(self) -> Path:
        """The folder of the cache, which the processes of a host share."""
        if self.folder:
            return Path(self.folder).absolute()
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(base).absolute() / "mxtrain" / "storage"


DEFAULTS = StorageOptions()


def of_flags(data: Data) -> StorageOptions:
    """Return the settings that the flags say."""
    return StorageOptions(data.storage_cache, data.storage_cache_mb << 20, float(data.storage_patience))
