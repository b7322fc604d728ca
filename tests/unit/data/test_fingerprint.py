"""Fingerprints: equal for one data set wherever it lies, and different for another one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
import pytest

from mxtrain.data import fingerprint
from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import index_path, open_records
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.user.user_datasets import UserBatches, UserDataset
from tests.support.data.packed_samples import packed, samples


def without_checksums(path: Path, content: Sequence[Any]) -> Path:
    """Pack as other tools do: `id2` is 0, and there is no .idx."""
    frames = [
        recordio.frame(recordio.HEADER.pack(0, label, key, 0) + payload) for key, label, payload in content
    ]
    path.write_bytes(b"".join(frames))
    return path


def of(text: object) -> dict[str, str]:
    return fingerprint.fingerprint_of(open_set(str(text)))


@pytest.mark.parametrize("pack", [packed, without_checksums])
def test_the_same_file_elsewhere_by_another_name_is_the_same(
    tmp_path: Path, pack: Callable[..., Path]
) -> None:
    path = pack(tmp_path / "a.rec", samples())
    before = of(path)
    assert set(before) == set(fingerprint.PROPERTIES)
    (tmp_path / "there").mkdir()
    for suffix in (".rec", ".idx"):
        if path.with_suffix(suffix).exists():
            shutil.copy(path.with_suffix(suffix), tmp_path / "there" / f"b{suffix}")
    assert of(tmp_path / "there" / "b.rec") == before


def test_an_index_that_was_lost_changes_nothing(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.rec", samples())
    before = of(path)
    index_path(path).unlink()
    assert of(path) == before


def test_cut_into_shards_it_is_the_same_and_in_another_order_it_is_not(tmp_path: Path) -> None:
    content = samples()
    whole = of(packed(tmp_path / "whole.rec", content))
    parts = [
        packed(tmp_path / f"s-0000{number}-of-00003.rec", content[20 * number : 20 * (number + 1)])
        for number in range(3)
    ]
    assert of(tmp_path / "s-*.rec") == whole
    assert of(",".join(map(str, parts))) == whole
    turned = fingerprint.differences(whole, of(",".join(map(str, reversed(parts)))))
    assert "other keys" in turned


def changed(what: str) -> list[Any]:
    content = samples()
    if what == "labels":
        content[7] = (7, 2.0, content[7][2])
    elif what == "keys":
        content = [(key + 100, label, payload) for key, label, payload in content]
    elif what == "lengths":
        content[33] = (33, content[33][1], content[33][2] + b"12345678")
    else:
        content[33] = (33, content[33][1], bytes(len(content[33][2])))
    return content


@pytest.mark.parametrize("pack", [packed, without_checksums])
@pytest.mark.parametrize("what", list(fingerprint.PROPERTIES))
def test_whatever_differs_is_told(tmp_path: Path, pack: Callable[..., Path], what: str) -> None:
    before, now = (
        of(pack(tmp_path / name, content))
        for name, content in (("a.rec", samples()), ("b.rec", changed(what)))
    )
    told = fingerprint.differences(before, now)
    assert fingerprint.PROPERTIES[what] in told
    assert fingerprint.differences(before, before) == []


def test_every_record_counts_in_a_large_set_but_for_what_only_a_sample_tells(tmp_path: Path) -> None:
    num = 4 * fingerprint.SAMPLED
    content: list[Any] = [(key, 0.0, b"x") for key in range(num)]
    before = of(packed(tmp_path / "a.rec", content))
    for position, sample in ((13, (13, 1.0, b"x")), (num - 9, (num - 9, 0.0, b"123456"))):
        other = [*content[:position], sample, *content[position + 1 :]]
        assert fingerprint.differences(before, of(packed(tmp_path / "b.rec", other)))


class Dataset:
    """A data set of the user's own: pairs, nothing else."""

    def __init__(self, labels: Sequence[int]):
        self.numbers = labels

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, position: int) -> Any:
        return np.zeros((4, 4, 3), np.uint8), self.numbers[position]


def test_a_dataset_is_known_by_its_labels(tmp_path: Path) -> None:
    same, again, other = (
        fingerprint.fingerprint_of(UserDataset("m:d", Dataset(labels)))
        for labels in ([0, 1, 2], [0, 1, 2], [0, 2, 1])
    )
    assert fingerprint.differences(same, again) == []
    assert fingerprint.differences(same, other) == ["other labels"]
    batches = fingerprint.fingerprint_of(UserBatches("m:l", [None] * 3, 16))
    assert fingerprint.differences(batches, batches) == []
    # What was packed of a Dataset is the same set, as far as both are known.
    content = [(key, float(label), b"x") for key, label in enumerate([0, 1, 2])]
    assert (
        fingerprint.differences(
            same, fingerprint.fingerprint_of(open_records(packed(tmp_path / "a.rec", content)))
        )
        == []
    )
