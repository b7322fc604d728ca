"""All kinds of data have the face of `Records`, or of `Dataset` where they are not read by position."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.data import interfaces
from mxtrain.data.loading.sample_requests import OverfitRecords
from mxtrain.data.records import record_sets
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.user.streams import Stream
from mxtrain.data.user.user_datasets import UserBatches, UserDataset
from mxtrain.data.user.user_samples import record_of_pair

METHODS = {name for name in vars(interfaces.Records) if not name.startswith("_")}
RECORDS = {*METHODS, "keys", "descriptors", "path", "class_names", "files", "where", "labels"}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("kinds")
    for name in ("a", "b"):
        with RecordWriter(folder / f"{name}.rec") as writer:
            for key in range(12):
                writer.write(key, float(key % 2), bytes([key]))
    file = record_sets.open_set(str(folder / "a.rec"))
    run = config.parse(["--train", "t.rec", "--batch-size", "4", "--overfit", "2"])
    pairs = [(bytes([key]), key % 2) for key in range(12)]
    return {
        "file": file,
        "set": record_sets.open_set(f"{folder / 'a.rec'},{folder / 'b.rec'}"),
        "overfit": OverfitRecords(run, file),
        "dataset": UserDataset("own:data", pairs),
        "stream": Stream("own:stream", lambda: itertools.cycle(pairs), record_of_pair, 12, 4),
    }


@pytest.mark.parametrize("kind", ["file", "set", "overfit", "dataset", "stream"])
def test_samples_are_read_alike(kind: str, kinds: dict[str, Any]) -> None:
    data = kinds[kind]
    assert all(hasattr(data, name) for name in RECORDS)
    assert len(data) == len(data.keys) and isinstance(data.path, Path)
    data.will_need(np.arange(4))
    record = data.read(2, False)
    assert isinstance(record, interfaces.Record) and len(bytes(record.payload)) == 1
    assert record.label in (0, 1) and re.search(r"(record|sample) \d", data.where(2))
    assert len(data.labels()) in (0, len(data))


def test_batches_have_what_checks_and_messages_need() -> None:
    batches = UserBatches("own:loader", [None] * 3, 16)
    assert len(batches) == 48 and not len(batches.labels()) and not batches.files
    assert isinstance(batches.path, Path) and batches.class_names is None and "7" in batches.where(7)
