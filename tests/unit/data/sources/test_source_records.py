"""Sources as data sets: the samples of every type are those that `pack` makes of it, in the same order."""

from __future__ import annotations

import io
import pickle
import shutil
import tarfile
from pathlib import Path
from typing import Any, Callable

import h5py
import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.opencv import cv2
from mxtrain.data.decode import decoding
from mxtrain.data.fingerprint import fingerprint_of
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.sources import packing_gain, source_records
from mxtrain.data.sources.samples import Labels, open_samples
from tests.support.data import binary_sources
from tests.support.data.pictures import jpeg, picture

NAMES = ["ant", "bee", "cow"]


def encoded(number: int) -> bytes:
    """Return a JPEG or a PNG."""
    pixels = picture(number, 20 + number, 30)
    return jpeg(pixels) if number % 2 else cv2.imencode(".png", pixels)[1].tobytes()


def folder(root: Path) -> Path:
    for number in range(12):
        path = root / "set" / NAMES[number % 3] / f"{number} ä,'\"\n.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(number))
    (root / "set" / "ant" / "deeper").symlink_to(root / "more")
    (root / "more").mkdir()
    (root / "more" / "12.jpg").write_bytes(encoded(12))
    return root / "set"


def listed(root: Path, name: str, line: str) -> Path:
    (root / "pictures").mkdir()
    for number in range(12):
        (root / "pictures" / f"{number}.jpg").write_bytes(encoded(number))
    lines = [
        line.format(number=number, label=number % 3, name=f"pictures/{number}.jpg") for number in range(12)
    ]
    (root / name).write_text("\n".join(lines))
    return root / name


def tar(root: Path) -> Path:
    with tarfile.open(root / "a.tar", "w") as archive:
        for number in range(8):
            for end, content in (("jpg", encoded(number)), ("cls", str(number % 3).encode())):
                member = tarfile.TarInfo(f"{number:03}.{end}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return root / "a.tar"


def tfrecord(root: Path) -> Path:
    examples = [binary_sources.example(encoded(number), [number % 3]) for number in range(6)]
    (root / "a.tfrecord").write_bytes(binary_sources.tfrecord(*examples))
    return root / "a.tfrecord"


def hdf5(root: Path) -> Path:
    with h5py.File(root / "a.h5", "w") as file:
        file["images"] = np.stack([picture(number, 16, 24) for number in range(6)])
        file["labels"] = np.arange(6) % 3
    return root / "a.h5"


def yolo(root: Path) -> Path:
    for number in range(4):
        for where, end, content in (
            ("images", "jpg", encoded(number)),
            ("labels", "txt", b"1 0.5 0.5 0.25 0.5\n" * number),
        ):
            path = root / "yolo" / where / f"{number}.{end}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    (root / "yolo" / "data.yaml").write_text("names: [a, b]\n")
    return root / "yolo"


def masks(root: Path) -> Path:
    for number in range(4):
        pixels = picture(number, 20, 30)
        for where, content in (("images", pixels), ("masks", pixels[:, :, 0] % 3)):
            path = root / "masked" / where / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), content)
    (root / "masked" / "classes.txt").write_text("\n".join(NAMES))
    return root / "masked"


SOURCES: dict[str, Callable[[Path], Path]] = {
    **{each.__name__: each for each in (folder, tar, tfrecord, hdf5, yolo, masks)},
    "csv": lambda root: listed(root, "a.csv", "{name},{label}"),
    "lst": lambda root: listed(root, "a.lst", "{number}\t{label}\t{name}"),
}
EVERY = pytest.mark.parametrize("name", SOURCES)


def opened(name: str, path: Path) -> Any:
    return open_samples(str(path), Labels(are_boxes=name == "yolo", are_masks=name == "masks"))


@EVERY
def test_samples_labels_and_order_are_those_of_its_pack(name: str, tmp_path: Path) -> None:
    path = SOURCES[name](tmp_path)
    records = opened(name, path)
    pack(path, tmp_path / "packed.rec", Options())
    packed = open_set(str(tmp_path / "packed.rec"))
    assert len(records) == len(packed) and records.class_names == packed.class_names
    for position in range(len(packed)):
        own, other = records.read(position), packed.read(position)
        assert np.array_equal(own.label, other.label) and np.shape(own.label) == np.shape(other.label)
        assert np.array_equal(decoding.decode(own.payload), decoding.decode(other.payload))
    assert all(map(np.array_equal, records.label_rows(), packed.label_rows()))
    if name != "yolo":  # whose labels are of many lengths
        assert np.array_equal(records.labels(), packed.labels())
    assert fingerprint_of(records)["labels"] == fingerprint_of(packed)["labels"]
    records.will_need(np.arange(len(records)))


def test_labels_of_several_are_rows_where_there_is_one_class_as_in_its_pack(tmp_path: Path) -> None:
    path = listed(tmp_path, "a.csv", "{name},ant")
    records = open_samples(str(path), Labels(are_several=True))
    pack(path, tmp_path / "packed.rec", Options(multi_label=True))
    packed = open_set(str(tmp_path / "packed.rec"))
    assert records.labels().shape == (12, 1) == packed.labels().shape
    assert np.array_equal(records.labels(), packed.labels())


@EVERY
def test_another_process_reads_the_same(name: str, tmp_path: Path) -> None:
    records = opened(name, SOURCES[name](tmp_path))
    again = pickle.loads(pickle.dumps(records))
    for position in range(len(records)):
        own, other = records.read(position), again.read(position)
        assert np.array_equal(own.label, other.label) and np.array_equal(own.payload, other.payload)
    assert fingerprint_of(again) == fingerprint_of(records)


def test_a_process_that_finds_other_files_says_so(tmp_path: Path) -> None:
    path = folder(tmp_path)
    kept = pickle.dumps(opened("folder", path))
    (path / "bee" / "new.jpg").write_bytes(encoded(1))
    with pytest.raises(DataError, match="holds other files than a moment ago"):
        pickle.loads(kept)


@pytest.mark.parametrize(
    "name, content, words",
    [("a.txt", "some words", "holds text, from which --task lm"), ("empty", None, "empty")],
)
def test_what_is_no_source_of_pictures_is_refused(
    name: str, content: str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    with pytest.raises((DataError, UsageError)) as stopped:
        open_samples(str(path))
    assert words in str(stopped.value) and str(path) in str(stopped.value)


def test_a_folder_of_rec_files_is_a_set_of_these(tmp_path: Path) -> None:
    path = folder(tmp_path)
    for part in ("b", "a"):
        pack(path, tmp_path / "recs" / f"{part}.rec", Options(seed=ord(part)))
    records = open_samples(str(tmp_path / "recs"))
    assert [each.name for each in records.files] == ["a.rec", "b.rec"] and len(records) == 26


def test_what_packing_saves_is_told(tmp_path: Path) -> None:
    records = opened("folder", folder(tmp_path))
    line = packing_gain.in_words(records)
    assert str(records.path) in line and "% of the CPU time that loading a picture takes" in line
    for name in NAMES:
        shutil.rmtree(tmp_path / "set" / name)
    assert "CPU time" not in packing_gain.in_words(records)


@pytest.mark.slow
def test_a_hundred_thousand_files_are_described_in_seconds(tmp_path: Path) -> None:
    import time

    content = encoded(1)
    for label in range(100):
        (tmp_path / "set" / str(label)).mkdir(parents=True)
        for number in range(1000):
            (tmp_path / "set" / str(label) / f"{number}.jpg").write_bytes(content)
    begun = time.monotonic()
    records = source_records.open_records(tmp_path / "set")
    fingerprint_of(records)
    assert len(records) == 100_000 and time.monotonic() - begun < 20
