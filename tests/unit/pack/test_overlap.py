"""A pack never writes to its source, under whatever name; test_sources*.py assert what each kind reads."""

from __future__ import annotations

import os
import tarfile

import h5py
import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import classes_path, index_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.data.binary_sources import PNGS, datum, example, tfrecord, write_lmdb


def pictures(folder):
    for number, data in enumerate(PNGS):
        path = folder / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def rec(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with RecordWriter(path) as writer:
        for key, data in enumerate(PNGS):
            writer.write(key, float(key % 2), data)
    classes_path(path).write_text("a\t2\nb\t2\n")
    return path


def listed(path, folder):
    rows = [f"{file.relative_to(folder)},{file.parent.name}\n" for file in sorted(folder.rglob("*.png"))]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(rows))
    return path


def tar(path):
    path.parent.mkdir(exist_ok=True)
    pictures(path.parent / "unpacked")
    (path.parent / "unpacked" / "a" / "0.cls").write_text("0")
    with tarfile.open(path, "w") as file:
        for name in ("0.png", "0.cls"):
            file.add(path.parent / "unpacked" / "a" / name, name)
    return path


def tfrecords(path):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(tfrecord(*(example(data, [1]) for data in PNGS)))
    return path


def hdf5(path):
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file["images"], file["labels"] = np.zeros((4, 8, 8, 3), np.uint8), np.arange(4)
    return path


def lmdb(path):
    write_lmdb(path, [datum(PNGS[0], 0, True)])
    return path


def text(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"text": "to be"}\n{"text": "or not"}\n')
    return path


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def refused(folder, source, out, said, **options):
    before = contents(folder)
    with pytest.raises(UsageError) as refusal:
        pack(source, out, Options(**options))
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("source", "out", "options"),
    [
        ((rec, "d/val.rec"), "d", {"train_share": 0.5}),
        ((rec, "d/train.rec"), "d/train.rec", {}),
        ((rec, "d/data.rec"), "d", {}),
        ((rec, "d/train.recordio"), "d/train.rec", {}),  # its .idx and class list
        ((rec, "d/data-00001-of-00002.rec"), "d", {"num_shards": 2}),
        ((rec, "d/x.rec.partial"), "d/x.rec", {"source_type": "rec"}),
        ((tar, "d/data.rec"), "d", {}),
        ((tfrecords, "d/data.rec"), "d", {}),
        ((hdf5, "d/data.rec"), "d", {}),
        ((text, "d/data.tokens.json"), "d", {"source_type": "text"}),
        ((text, "d.bad.tsv"), "d", {"source_type": "text"}),
        ((text, "d/tokenizer.json"), "d", {"source_type": "text"}),
    ],
)
def test_a_source_is_not_written_over(tmp_path, source, out, options):
    make, name = source
    refused(tmp_path, make(tmp_path / name), tmp_path / out, "is a part of the source", **options)


@pytest.mark.parametrize("out", ["s", "s/x.rec", "s/a/x.rec", "s/new", "s/new/er"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda folder: pictures(folder), "s"),
        (lambda path: rec(path).parent, "s/one.rec"),
        (lambda path: tar(path).parent, "s/one.tar"),
        (lambda path: tfrecords(path).parent, "s/one.tfrecord"),
        (lmdb, "s"),
        (lambda path: text(path).parent, "s/one.txt"),
    ],
    ids=["folder", "rec", "webdataset", "tfrecord", "lmdb", "text"],
)
def test_nothing_is_written_into_a_folder_that_is_read(tmp_path, make, name, out):
    source = make(tmp_path / name)
    kind = {"one.tar": "webdataset"}.get((tmp_path / name).name)
    refused(tmp_path, source, tmp_path / out, "which is the source", source_type=kind)


def test_links_lead_to_the_same_files_and_folders(tmp_path):
    source = rec(tmp_path / "d" / "data.rec")
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "link.rec").symlink_to("d/data.rec")
    refused(tmp_path, source, tmp_path / "link", "is a part of the source")
    refused(tmp_path, source, tmp_path / "link.rec", "is a part of the source")
    refused(tmp_path, tmp_path / "link.rec", tmp_path / "d", "is a part of the source")
    refused(tmp_path, tmp_path / "link", tmp_path / "d" / "new", "which is the source")

    os.link(source, tmp_path / "hard.rec")
    refused(tmp_path, source, tmp_path / "hard.rec", "is a part of the source")

    images = pictures(tmp_path / "images")
    names = listed(tmp_path / "list.csv", images)
    os.replace(images / "a" / "0.png", tmp_path / "out.rec")
    (images / "a" / "0.png").symlink_to(tmp_path / "out.rec")
    refused(tmp_path, names, tmp_path / "out.rec", "is a part of the source", root=images)
    (pictures(tmp_path / "more") / "c").mkdir()
    (images / "c").symlink_to(tmp_path / "more" / "a")
    refused(tmp_path, images, tmp_path / "more" / "a" / "packed", "which is the source")


def test_a_list_names_what_is_read(tmp_path):
    images = pictures(tmp_path / "images")
    refused(tmp_path, listed(tmp_path / "x.journal", images), tmp_path / "x", "is a part", source_type="csv")
    (images / "pack.rec").write_bytes(PNGS[0])
    names = listed(tmp_path / "list.csv", images)
    with names.open("a") as file:
        file.write("pack.rec,a\n")
    refused(tmp_path, names, images / "pack.rec", "is a part of the source", root=images)


def test_what_lies_beside_a_source_is_no_part_of_it(tmp_path):
    """A list beside its .rec, as MXNet has them; a .rec packed again under another name; what holds the source."""
    images = pictures(tmp_path / "images")
    pack(listed(images / "train.csv", images), images / "train.rec", Options())
    pack(images / "train.rec", images / "again.rec", Options())
    assert len(open_records(images / "again.rec")) == len(PNGS)
    pack(images, tmp_path, Options(source_type="folder"))
    assert len(open_records(tmp_path / "data.rec")) == len(PNGS)
    index_path(images / "train.rec").unlink()
    pack(images / "train.rec", images / "again.rec", Options())
    assert os.path.exists(images / "again.idx")
