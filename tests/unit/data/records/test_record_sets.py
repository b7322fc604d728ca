import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.labels import label_checks
from mxtrain.data.records.record_file import classes_path
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.records.record_writer import RecordWriter


def pack(path, first, count, classes=b"ape\t1\nbee\t1\n", label=None):
    with RecordWriter(path) as writer:
        for key in range(first, first + count):
            writer.write(key, float(key % 2) if label is None else label, b"payload %d" % key)
    if classes:
        classes_path(path).write_bytes(classes)


@pytest.fixture
def shards(tmp_path):
    for number, (first, count) in enumerate([(0, 4), (4, 1), (5, 6)]):
        pack(tmp_path / f"train-{number:05}-of-00003.rec", first, count)
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    ["{0}/train-*-of-*.rec", "{0}/train*", "{0}/train-00000-of-00003.rec,{0}/train-0000[12]-of-00003.rec"],
)
def test_shards_are_one_set_in_order(shards, pattern):
    found = open_set(pattern.format(shards))
    for copy in (found, pickle.loads(pickle.dumps(found))):
        assert len(copy) == 11
        assert [bytes(copy.read(at).payload) for at in range(11)] == [b"payload %d" % at for at in range(11)]
        assert copy.keys.tolist() == list(range(11))
        np.testing.assert_array_equal(copy.labels(), np.arange(11) % 2)
        assert copy.class_names == ["ape", "bee"]
        assert copy.where(4).endswith("train-00001-of-00003.rec: record 0 (key 4)")
        copy.will_need(np.array([10, 0, 4]))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_shard_is_named(shards, number):
    (shards / f"train-0000{number}-of-00003.rec").unlink()
    with pytest.raises(DataError, match=rf"shard {number} of .*train-\*-of-00003.rec is missing \(2 of 3"):
        open_set(f"{shards}/train*.rec")


def test_a_damaged_record_is_named_by_its_own_file(shards):
    path = shards / "train-00002-of-00003.rec"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train-00002-of-00003.rec: record 5 \(key 10,.*checksum"):
        open_set(f"{shards}/train*.rec").read(10)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    pack(tmp_path / "a.rec", 0, 3)
    pack(tmp_path / "b.rec", 0, 3, classes=b"bee\t1\nape\t1\n")
    pack(tmp_path / "c.rec", 0, 3, label=[1.0, 2.0])
    with pytest.raises(DataError, match=r"b.rec: its classes are not those of .*a.rec"):
        open_set(f"{tmp_path}/a.rec,{tmp_path}/b.rec")
    with pytest.raises(DataError, match=r"c.rec: has other numbers of labels"):
        open_set(f"{tmp_path}/a.rec,{tmp_path}/c.rec").labels()
    with pytest.raises(DataError, match=r"names .*a.rec twice"):
        open_set(f"{tmp_path}/a.rec, {tmp_path}/a*")


def test_a_pattern_without_a_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"x\*\.rec: no .rec file matches"):
        open_set(f"{tmp_path}/x*.rec")


def test_text_is_no_set_of_pictures(tmp_path):
    (tmp_path / "poem.txt").write_text("Tiger, tiger, burning bright")
    pack_text = [
        "-m",
        "tools.im2rec_wrapper",
        "pack",
        tmp_path / "poem.txt",
        tmp_path / "text.rec",
        "--from",
        "text",
    ]
    root = Path(__file__).resolve().parents[4]
    subprocess.run([sys.executable, *pack_text], cwd=root, check=True, capture_output=True, timeout=60)
    pack(tmp_path / "a.rec", 0, 4)
    text, pictures = open_set(str(tmp_path / "text.rec")), open_set(str(tmp_path / "a.rec"))
    for train, val in ((text, None), (pictures, text)):
        with pytest.raises(DataError, match=r"text\.rec: holds text"):
            label_checks.class_names(train, val, 0)


@pytest.mark.parametrize("num_classes", [0, 3])
def test_labels_to_regress_on_are_no_classes(tmp_path, num_classes):
    with RecordWriter(tmp_path / "ages.rec") as writer:
        for key, label in enumerate((0.0, 0.25, 0.75, 0.5)):
            writer.write(key, label, b"payload")
    with pytest.raises(
        DataError, match=r"record 1 \(key 1.* has label 0\.25, 3 of 4 labels are not whole numbers"
    ):
        label_checks.class_names(open_set(str(tmp_path / "ages.rec")), None, num_classes)


def test_labels_to_regress_on_in_the_validation_set_alone(tmp_path):
    pack(tmp_path / "train.rec", 0, 4, classes=None)
    pack(tmp_path / "val.rec", 0, 4, classes=None, label=0.5)
    sets = [open_set(str(tmp_path / f"{name}.rec")) for name in ("train", "val")]
    with pytest.raises(DataError, match=r"val\.rec: record 0 .*4 of 4 labels are not whole numbers"):
        label_checks.class_names(*sets, 0)
