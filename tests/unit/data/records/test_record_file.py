from __future__ import annotations

import os
import pickle
import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.records import record_file, recordio
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter, Replacement, rebuild_index

MAGIC = struct.pack("<I", recordio.MAGIC)
payloads = st.lists(st.one_of(st.binary(max_size=9), st.just(MAGIC)), max_size=6).map(b"".join)
float32s = st.floats(width=32, allow_nan=False)
labels = st.one_of(
    float32s, st.lists(float32s, min_size=1, max_size=40).map(lambda x: np.array(x, np.float32))
)
written = st.lists(
    st.tuples(st.integers(0, 2**62), labels, payloads),
    min_size=1,
    max_size=8,
    unique_by=lambda record: record[0],
).map(lambda records: sorted(records, key=lambda record: record[0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


def write(path, contents):
    with RecordWriter(path) as writer:
        for key, label, payload in contents:
            writer.write(key, label, payload)
    return path


def some_records(num_records=20):
    return [(key, float(key % 3), bytes([key]) * (10 * key + 1)) for key in range(num_records)]


def assert_same(record, expected):
    key, label, payload = expected
    assert (record.key, bytes(record.payload)) == (key, payload)
    assert np.shape(record.label) == np.shape(label)
    np.testing.assert_array_equal(record.label, label)


# What was written is read


@given(contents=written, indexed=st.booleans())
def test_round_trip(folder, contents, indexed):
    path = write(folder / "a.rec", contents)
    if not indexed:
        record_file.index_path(path).unlink()
    found = open_records(path)
    assert found.keys.tolist() == [key for key, _, _ in contents]
    for position, expected in enumerate(contents):
        assert_same(found.read(position), expected)


@given(contents=written)
def test_a_rebuilt_index_is_the_one_that_was_written(folder, contents):
    path = write(folder / "a.rec", contents)
    original = record_file.index_path(path).read_bytes()
    record_file.index_path(path).unlink()
    assert rebuild_index(path) == len(contents)
    assert record_file.index_path(path).read_bytes() == original


def test_labels_without_reading_payloads(tmp_path):
    contents = some_records()
    assert open_records(write(tmp_path / "a.rec", contents)).labels().tolist() == [c[1] for c in contents]
    several = [(key, np.arange(50, dtype=np.float32) + key, MAGIC) for key in range(3)]
    assert open_records(write(tmp_path / "b.rec", several)).labels().tolist() == [
        c[1].tolist() for c in several
    ]


def test_labels_of_different_shapes_are_refused(tmp_path):
    path = write(tmp_path / "a.rec", [(0, 1.0, b""), (5, np.array([1.0, 2.0]), b"")])
    with pytest.raises(DataError, match=r"record 1 \(key 5"):
        open_records(path).labels()


def test_records_without_a_checksum_are_read(tmp_path):
    path = tmp_path / "foreign.rec"
    path.write_bytes(recordio.frame(recordio.HEADER.pack(0, 2.0, 7, 0) + b"payload"))
    assert_same(open_records(path).read(0), (7, 2.0, b"payload"))


def test_a_record_that_lost_its_checksum_is_noticed(tmp_path):
    path = write(tmp_path / "a.rec", some_records(2))
    path.write_bytes(path.read_bytes() + recordio.frame(recordio.HEADER.pack(0, 2.0, 7, 0) + b"payload"))
    rebuild_index(path)
    found = open_records(path)
    assert_same(found.read(1), some_records(2)[1])
    with pytest.raises(DataError, match=r"record 2 \(key 7.*checksum"):
        found.read(2)


def test_repeated_ids_become_positions(tmp_path):
    path = tmp_path / "foreign.rec"
    path.write_bytes(recordio.frame(recordio.HEADER.pack(0, 2.0, 0, 0)) * 3)
    assert open_records(path).keys.tolist() == [0, 1, 2]


def test_an_index_in_another_order_is_followed(tmp_path):
    path = write(tmp_path / "a.rec", some_records(5))
    index = record_file.index_path(path)
    index.write_text("".join(reversed(index.read_text().splitlines(keepends=True))))
    found = open_records(path)
    assert [found.read(position).key for position in range(5)] == [4, 3, 2, 1, 0]


def test_threads_read_their_own_records(tmp_path):
    contents = some_records(200)
    found, wrong = open_records(write(tmp_path / "a.rec", contents)), []

    def read_all(start):
        for step in range(2000):
            position = (start + 7 * step) % len(contents)
            if bytes(found.read(position).payload) != contents[position][2]:
                wrong.append(position)

    threads = [threading.Thread(target=read_all, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_pickled_set_opens_its_file_again(tmp_path):
    found = open_records(write(tmp_path / "a.rec", some_records(3)))
    copy = pickle.loads(pickle.dumps(found))
    del found
    assert_same(copy.read(2), some_records(3)[2])


def test_class_names_lie_beside(tmp_path):
    path = write(tmp_path / "a.rec", some_records(3))
    assert open_records(path).class_names is None
    record_file.classes_path(path).write_bytes(recordio.format_classes(["ape", "größe"], [2, 1]))
    assert open_records(path).class_names == ["ape", "größe"]
    record_file.classes_path(path).write_text("ape\nbee\n")
    assert open_records(path).class_names == ["ape", "bee"]
    record_file.classes_path(path).write_bytes("a\x85p\u2028e\x1c\t3\r\nbee\t4".encode())
    assert open_records(path).class_names == ["a\x85p\u2028e\x1c", "bee"]
    record_file.classes_path(path).write_text("ape\nbee\n")
    assert open_records(path).class_names == ["ape", "bee"]


@pytest.mark.parametrize("text", [b"ape\nape\n", b"ape\n\nbee\n", b"\xff\n"])
def test_bad_class_names_are_refused(tmp_path, text):
    path = write(tmp_path / "a.rec", some_records(3))
    record_file.classes_path(path).write_bytes(text)
    with pytest.raises(DataError, match=r"a\.classes\.tsv"):
        open_records(path)


# What is not a good .rec is refused


@pytest.mark.parametrize(
    ("contents", "looks_like"),
    [
        (b"", "is empty"),
        (b"0\t0\n1\t200\n", "a text file"),
        (b"\xff\xd8\xff\xe0" + bytes(100), "a JPEG image"),
        (b"\x1f\x8b\x08" + bytes(100), "gzip"),
        (struct.pack("<QI", 80, 0x12345678) + bytes(84), "a TFRecord file"),
        (bytes(400), "zeros"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\x00\x01\x02\x03", "00010203"),
    ],
)
def test_other_files_are_named_for_what_they_are(tmp_path, contents, looks_like):
    path = tmp_path / "a.rec"
    path.write_bytes(contents)
    with pytest.raises(DataError, match=looks_like) as caught:
        open_records(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_names_its_neighbours(tmp_path):
    write(tmp_path / "train.rec", some_records(1))
    with pytest.raises(DataError, match=r"trian\.rec does not exist; did you mean 'train\.rec'"):
        open_records(tmp_path / "trian.rec")
    with pytest.raises(DataError, match="nor does its folder"):
        open_records(tmp_path / "nowhere" / "train.rec")


def test_a_folder_and_a_pipe_are_refused(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        open_records(tmp_path)
    os.mkfifo(tmp_path / "pipe.rec")
    with pytest.raises(DataError, match=r"cannot read .*pipe\.rec: a named pipe, not a file"):
        open_records(tmp_path / "pipe.rec")


@pytest.mark.parametrize("suffix", [".idx", ".classes.tsv"])
def test_a_pipe_beside_a_file_is_not_waited_for(tmp_path, suffix):
    path = write(tmp_path / "a.rec", some_records(1))
    path.with_suffix(suffix).unlink(missing_ok=True)
    os.mkfifo(path.with_suffix(suffix))
    with pytest.raises(DataError, match=rf"cannot read .*a\{suffix}: a named pipe, not a file"):
        open_records(path)


def test_the_reason_of_the_system_is_given(tmp_path):
    path = write(tmp_path / "a.rec", some_records(1))
    with pytest.raises(DataError, match=r"cannot read .*b\.rec: Not a directory"):
        open_records(path / "b.rec")


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("cut", [1, 4, 30, 200])
def test_a_truncated_file_is_refused(tmp_path, indexed, cut):
    path = write(tmp_path / "a.rec", some_records())
    os.truncate(path, path.stat().st_size - cut)
    if not indexed:
        record_file.index_path(path).unlink()
    with pytest.raises(DataError, match=r"a\.rec"):
        open_records(path)


def test_a_file_that_shrinks_while_open_is_an_error(tmp_path):
    found = open_records(write(tmp_path / "a.rec", some_records()))
    os.truncate(found.path, 100)
    with pytest.raises(DataError, match=r"record 19 \(key 19"):
        found.read(19)


@pytest.mark.parametrize(
    "index",
    [
        "",
        "\t",
        "0\t0",
        "key\t0\n",
        "0 0\n1\t5\n",
        "0\t0\n1\t36\n",
        "0\t99999999999999999999999\n",
        "0\t0\n" * 3,
        "5\t4\n",
    ],
)
def test_an_index_of_something_else_is_refused(tmp_path, index):
    path = write(tmp_path / "a.rec", some_records(3))
    record_file.index_path(path).write_text(index)
    with pytest.raises(DataError, match=r"a\.idx .*im2rec_wrapper index .*a\.rec"):
        open_records(path)


def test_an_index_that_swaps_records_is_noticed(tmp_path):
    path = write(tmp_path / "a.rec", [(0, 0.0, b"same size"), (1, 1.0, b"as this..")])
    second = record_file.index_path(path).read_text().split()[3]
    record_file.index_path(path).write_text(f"0\t{second}\n1\t0\n")
    with pytest.raises(DataError, match="written with key 1"):
        open_records(path).read(0)


@given(
    contents=written, indexed=st.booleans(), where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7)
)
def test_no_flipped_bit_goes_unnoticed(folder, contents, indexed, where, bit):
    path = write(folder / "flipped.rec", contents)
    damaged = bytearray(path.read_bytes())
    damaged[int(where * len(damaged))] ^= 1 << bit
    path.write_bytes(damaged)
    if not indexed:
        record_file.index_path(path).unlink()
    with pytest.raises(DataError, match=r"flipped\.rec"):
        found = open_records(path)
        for position in range(len(found)):
            found.read(position)


def test_no_flipped_bit_of_a_small_file_goes_unnoticed(tmp_path):
    """Each of them: among the padding, which is short, chance finds one only now and then."""
    path = write(tmp_path / "flipped.rec", [(1, 0.0, b"abcde")])
    original = path.read_bytes()
    for place in range(8 * len(original)):
        damaged = bytearray(original)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"flipped\.rec"):
            open_records(path).read(0)


@given(contents=written, data=st.data())
def test_a_mutated_pair_gives_right_records_or_an_error(folder, contents, data):
    path = write(folder / "mutated.rec", contents)
    victim = data.draw(st.sampled_from([path, record_file.index_path(path)]))
    good = victim.read_bytes()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, len(good)))
    victim.write_bytes(good[:start] + data.draw(st.binary(max_size=12)) + good[end:])
    right = {key: (key, label, payload) for key, label, payload in contents}
    try:
        found = open_records(path)
        for position in range(len(found)):
            record = found.read(position)
            if found.has_checksums:  # where no tag is left, it is a file of another tool
                assert_same(record, right[record.key])
    except DataError as error:
        assert "mutated" in str(error)


# Writing


def test_a_failed_block_leaves_the_old_file(tmp_path):
    path = write(tmp_path / "a.rec", some_records(3))
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with pytest.raises(RuntimeError), RecordWriter(path) as writer:
        writer.write(0, 0.0, b"new")
        raise RuntimeError
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_nothing_is_there_before_the_block_ends(tmp_path):
    with RecordWriter(tmp_path / "a.rec") as writer:
        writer.write(0, 0.0, b"new")
        writer.sync()
        assert not (tmp_path / "a.rec").exists()
    assert sorted(os.listdir(tmp_path)) == ["a.idx", "a.rec"]


def test_a_key_is_written_once(tmp_path):
    with RecordWriter(tmp_path / "a.rec") as writer:
        writer.write(3, 0.0, b"")
        with pytest.raises(ValueError, match="key 3"):
            writer.write(3, 0.0, b"")


def test_a_record_too_large_for_the_format_is_refused(tmp_path, monkeypatch):
    assert recordio.MAX_DATA_BYTES == (1 << 29) - 1
    monkeypatch.setattr(recordio, "MAX_DATA_BYTES", 9999)  # half a gigabyte takes a second
    with RecordWriter(tmp_path / "a.rec") as writer, pytest.raises(DataError, match="key 8"):
        writer.write(7, 0.0, bytes(9000))
        writer.write(8, 0.0, bytes(9999))


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere/a\.rec: cannot be written \(No such file"):
        RecordWriter(tmp_path / "nowhere" / "a.rec")
    (tmp_path / "b.rec").mkdir()
    with pytest.raises(UsageError, match=r"b\.rec: cannot be written \(Is a directory"):
        Replacement(tmp_path / "b.rec")
    assert os.listdir(tmp_path) == ["b.rec"]


def test_a_full_disk_is_a_usage_error(tmp_path):
    (tmp_path / "a.rec.partial").symlink_to("/dev/full")
    with pytest.raises(UsageError, match="No space left"), RecordWriter(tmp_path / "a.rec") as writer:
        writer.write(0, 0.0, bytes(1 << 20))
    assert not os.listdir(tmp_path)
