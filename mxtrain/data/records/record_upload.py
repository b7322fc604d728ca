"""Upload of a local .rec, with what belongs to it, to a folder of an object store.

The small files go first and the .rec last, so that a .rec which is there is whole. Beside it comes a `.heads`
(`heads.py`), without which all of the .rec would have to be read for its labels.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from mxtrain.config.values.addresses import Address
from mxtrain.core import regular_files
from mxtrain.data.records import heads
from mxtrain.data.records.record_file import index_path, open_records, with_sidecars
from mxtrain.data.records.recordio import format_index
from mxtrain.data.storage import snapshot, stores
from mxtrain.data.storage.options import DEFAULTS, StorageOptions


def upload(path: Path, folder: Address, options: StorageOptions = DEFAULTS) -> Address:
    """Upload a .rec and the files beside it.

    Args:
        path: of the local .rec.
        folder: of the store, to which its files are added; those of the same names are replaced.
        options: how long the store may be away.

    Returns:
        the address of the .rec.
    """
    records = open_records(path)
    beside = [each for each in with_sidecars(path)[1:] if each.exists()]
    tokenizer = path.with_name(snapshot.TOKENIZER)
    if tokenizer.exists():
        beside.append(tokenizer)
    target = folder / path.name
    # A reader must not take the old .rec for one of the new small files.
    stores.remove(target, options.patience)
    with tempfile.TemporaryDirectory() as made:
        index = index_path(path)
        if not index.exists():
            index = Path(made, index.name)
            index.write_bytes(format_index(records.keys, records.offsets))
            beside.append(index)
        of_heads = Path(made, path.with_suffix(heads.SUFFIX).name)
        of_heads.write_bytes(records.heads(regular_files.read(index)))
        for each in (*beside, of_heads, path):
            stores.write(folder / each.name, str(each), options.patience)
    version = stores.version(target, options.patience)
    assert version is not None and version.num_bytes == path.stat().st_size
    return target
