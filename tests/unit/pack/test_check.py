"""`check` on files with every kind of damage and trouble; tests/fuzz does the same at random."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.data.packing import tokens
from mxtrain.data.records import recordio
from mxtrain.data.records.record_file import classes_path, index_path
from mxtrain.data.records.record_writer import RecordWriter, rebuild_index
from mxtrain.data.text.tokens import tokens_path
from tests.support.breadth import slow_cases
from tests.support.data.pictures import jpeg, picture
from tools.im2rec_wrapper.checking import check_report, findings
from tools.im2rec_wrapper.checking.check import check


def write(path, payloads, labels=None, classes=None):
    labels = [float(place % 2) for place in range(len(payloads))] if labels is None else labels
    with RecordWriter(path) as writer:
        for place, (payload, label) in enumerate(zip(payloads, labels)):
            writer.write(10 + place, label, payload)
    if classes:
        counts = [labels.count(float(label)) for label in range(len(classes))]
        classes_path(path).write_bytes(recordio.format_classes(classes, counts))
    return path


def foreign(path, payloads):
    """Write a .rec as MXNet's own im2rec does: no checksums."""
    headers = [recordio.HEADER.pack(0, float(n % 2), n, 0) for n in range(len(payloads))]
    path.write_bytes(b"".join(recordio.frame(head + data) for head, data in zip(headers, payloads)))
    rebuild_index(path)
    return path


@pytest.fixture
def good(tmp_path):
    payloads = [jpeg(picture(seed)) for seed in range(6)]
    return write(tmp_path / "good.rec", payloads, classes=["ape", "bee"])


def kinds(*paths, **options):
    return [finding.fault for finding in check(paths, **options).findings]


def only(*paths, **options):
    (finding,) = check(paths, **options).findings
    return finding


def change(path, at, new):
    data = bytearray(path.read_bytes())
    data[at : at + len(new)] = new
    path.write_bytes(data)


def offsets(path):
    return [int(line.split("\t")[1]) for line in index_path(path).read_text().splitlines()]


def test_a_good_file_has_no_findings_and_is_described(good):
    report = check([good])
    assert report.findings == []
    (file,) = report.files
    assert (file.num_records, file.has_checksums) == (6, True)
    assert [tuple(a_class) for a_class in file.classes] == [(0, "ape", 3), (1, "bee", 3)]
    assert file.contents["formats"] == {"JPEG": 6}
    assert file.contents["height"] == {"min": 60, "median": 60, "max": 60}
    assert file.contents["width"] == {"min": 80, "median": 80, "max": 80}


# Damage


@pytest.mark.parametrize(
    "every", [3, pytest.param(1, marks=pytest.mark.slow)]
)  # with 3, two or three of each byte
@pytest.mark.parametrize("beside", [True, *slow_cases(False)])
def test_every_flipped_bit_is_reported(tmp_path, beside, every):
    """Frames, headers, labels, payloads, checksums, padding, and a payload in several parts."""
    magic = recordio.MAGIC_BYTES
    path = write(tmp_path / "a.rec", [b"abcde", b"abcd" + magic + b"xyz" + b"-" + magic, b"", b"1"])
    if not beside:
        index_path(path).unlink()
    original = path.read_bytes()
    unnoticed = []
    for bit in range(0, 8 * len(original), every):
        damaged = bytearray(original)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        if not any(finding.is_wrong for finding in check([path], decode=False).findings):
            unnoticed.append(bit)
    assert not unnoticed


def test_a_damaged_checksum_in_the_only_record_is_reported(tmp_path):
    path = write(tmp_path / "a.rec", [b"abcde"])
    for bit in range(64):
        original = path.read_bytes()
        change(path, 24 + bit // 8, bytes([original[24 + bit // 8] ^ 1 << bit % 8]))
        assert kinds(path, decode=False) == ["checksum"]
        path.write_bytes(original)


@pytest.mark.parametrize("word", [0, 1])
def test_behind_a_damaged_frame_the_other_records_are_still_checked(good, word):
    starts = offsets(good)
    change(good, starts[2] + 4 * word, b"\x13\x57")
    change(good, starts[4] + 200, b"????")
    report = check([good])
    assert report.files[0].num_records == 5
    structure = next(finding for finding in report.findings if finding.fault == "structure")
    assert f"bytes {starts[2]} to {starts[3]} are no record" in structure.text
    assert [f.locations[0].key for f in report.findings if f.fault == "checksum"] == [14]


def test_a_cut_off_file_is_reported_with_what_is_left(good):
    with good.open("r+b") as file:
        file.truncate(offsets(good)[5] + 40)
    report = check([good])
    assert report.files[0].num_records == 5
    assert sorted({finding.fault for finding in report.findings}) == ["classes", "index", "structure"]


def test_bytes_behind_the_last_record_are_reported(good):
    good.write_bytes(good.read_bytes() + b"\n")
    assert kinds(good) == ["structure"]


def test_two_files_one_behind_the_other_are_reported(good):
    good.write_bytes(good.read_bytes() * 2)
    index_path(good).unlink()
    found = check([good], decode=False).findings
    assert "6 records have another one's key" in next(f.text for f in found if f.fault == "structure")


def test_undecodable_pictures_are_named(tmp_path):
    whole = jpeg(picture(1))
    path = write(tmp_path / "a.rec", [whole, whole[: len(whole) // 2], b"no picture", b""])
    report = check([path])
    assert [(f.fault, f.locations[0].number) for f in report.findings] == [
        ("undecodable", n) for n in (1, 2, 3)
    ]
    assert kinds(path, decode=False) == []


def test_files_that_are_no_rec_do_not_hide_what_the_others_have(good, tmp_path):
    (tmp_path / "text.rec").write_text("hello")
    report = check([tmp_path / "text.rec", tmp_path / "none.rec", good])
    assert [finding.fault for finding in report.findings] == ["unreadable"] * 2
    assert [file.path for file in report.files] == [good]


# .idx


def test_a_missing_index_is_a_note(good):
    index_path(good).unlink()
    finding = only(good)
    assert (finding.fault, finding.is_wrong) == ("no-index", False)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda lines: lines[:-1], "incomplete: it leaves out 1 of 6"),
        (lambda lines: [*lines[:-1], "99\t123456"], "stale or another file's: 1 of its 6 lines"),
        (lambda lines: [*lines, lines[0]], "repeats 1 of its keys"),
        (lambda lines: [*lines[:-1], "x"], "is not lines of"),
        (lambda lines: ["10\t" + lines[1].split("\t")[1], "11\t0", *lines[2:]], "has other keys"),
    ],
)
def test_an_index_that_does_not_fit_is_wrong(good, edit, says):
    index = index_path(good)
    index.write_text("\n".join(edit(index.read_text().splitlines())) + "\n")
    report = check([good])
    assert {finding.fault for finding in report.findings} == {"index"}
    assert any(says in finding.text for finding in report.findings)


def test_an_index_in_another_order_is_right(good):
    index = index_path(good)
    index.write_text("".join(reversed(index.read_text().splitlines(keepends=True))))
    assert kinds(good) == []


# Labels and classes


def test_labels_are_held_against_the_class_list(tmp_path):
    payloads = [jpeg(picture(seed)) for seed in range(5)]
    path = write(tmp_path / "a.rec", payloads, [0.0, 1.0, 2.0, 0.5, float("nan")], ["ape", "bee"])
    report = check([path])
    assert [(f.fault, f.locations[0].key) for f in report.findings] == [
        ("label", 12),
        ("label", 13),
        ("label", 14),
    ]


def test_a_class_list_of_other_counts_is_wrong(good):
    classes_path(good).write_text("ape\t3\nbee\t4\n")
    finding = only(good)
    assert finding.fault == "classes"
    assert "counts 4 images of 'bee', but good.rec has 3" in finding.text
    classes_path(good).write_text("ape\nbee\n")
    assert kinds(good) == []


def test_labels_of_different_shapes_are_wrong(tmp_path):
    payloads = [jpeg(picture(seed)) for seed in range(3)]
    labels = [np.array([1.0, 2.0]), np.array([1.0, 2.0]), 3.0]
    assert only(write(tmp_path / "a.rec", payloads, labels)).locations[0].number == 2


def test_of_several_labels_each_has_its_class(tmp_path):
    payloads = [jpeg(picture(seed)) for seed in range(3)]
    labels = [np.array(label, np.float32) for label in [(1, 0, 1), (0, 0, 1), (1, 0, 0)]]
    path = write(tmp_path / "a.rec", payloads, labels)
    assert kinds(path) == []
    classes_path(path).write_text("ape\t2\nbee\t0\ncat\t2\n")
    assert [a_class.num_images for a_class in check([path]).files[0].classes] == [2, 0, 2]
    unknown = write(tmp_path / "b.rec", payloads, [np.array((1, -1, -1), np.float32), *labels[1:]])
    classes_path(unknown).write_text("ape\t2\nbee\t0\ncat\t1\n")
    assert [a_class.num_images for a_class in check([unknown]).files[0].classes] == [2, 0, 1]
    assert kinds(path) == ["imbalance"]
    classes_path(path).write_text("ape\nbee\n")
    assert kinds(path) == ["label"] * 3


def test_numbers_that_are_no_classes_are_no_finding(tmp_path):
    report = check([write(tmp_path / "a.rec", [jpeg(picture(1)), jpeg(picture(2))], [0.25, -3.0])])
    assert report.findings == []
    assert report.files[0].classes == []


def test_imbalance_is_a_note(tmp_path):
    payloads = [jpeg(picture(seed)) for seed in range(12)]
    finding = only(write(tmp_path / "a.rec", payloads, [0.0] * 11 + [1.0], ["ape", "bee"]))
    assert (finding.fault, finding.is_wrong) == ("imbalance", False)


# Copies


def test_copies_within_a_file_are_notes(tmp_path):
    one, two = jpeg(picture(1), cv2.IMWRITE_JPEG_QUALITY, 95), jpeg(picture(2))
    smaller = jpeg(cv2.resize(picture(1), (40, 30), interpolation=cv2.INTER_AREA))
    report = check([write(tmp_path / "a.rec", [one, two, one, smaller, one], [0.0, 1.0, 0.0, 0.0, 5.0])])
    pairs = [(f.fault, [place.key for place in f.locations]) for f in report.findings]
    assert pairs == [("duplicate", [10, 12]), ("duplicate", [10, 14]), ("near-duplicate", [10, 13])]
    assert "labelled 5, but the same payload as one that is labelled 0" in report.findings[1].text
    assert not any(finding.is_wrong for finding in report.findings)


def test_copies_in_two_files_are_leaks_and_both_sides_are_named(tmp_path):
    pictures = [picture(seed) for seed in range(8)]
    train = write(tmp_path / "train.rec", [jpeg(pixels) for pixels in pictures[:6]])
    val_payloads = [
        jpeg(pictures[6]),
        jpeg(pictures[2]),
        cv2.imencode(".png", pictures[4])[1].tobytes(),
        jpeg(pictures[7]),
    ]
    val = write(tmp_path / "val.rec", val_payloads, [0.0, 0.0, 0.0, 1.0])
    report = check([train, val])
    named = [(f.fault, [(place.path, place.number) for place in f.locations]) for f in report.findings]
    assert named == [("leak", [(train, 2), (val, 1)]), ("near-leak", [(train, 4), (val, 2)])]
    assert all(finding.is_wrong for finding in report.findings)
    assert kinds(train, val, decode=False) == ["leak"]


def test_a_copy_in_three_files_is_named_against_each(tmp_path):
    payload = jpeg(picture(1))
    paths = [write(tmp_path / f"{name}.rec", [payload]) for name in "abc"]
    pairs = [[place.path.stem for place in finding.locations] for finding in check(paths).findings]
    assert sorted(pairs) == [["a", "b"], ["a", "c"], ["b", "c"]]


def test_shards_are_one_set(tmp_path):
    payload = jpeg(picture(1))
    paths = [write(tmp_path / f"train-0000{n}-of-00002.rec", [payload]) for n in range(2)]
    assert kinds(*paths) == ["duplicate"]


def test_a_file_given_twice_is_refused(good):
    with pytest.raises(UsageError, match="given twice"):
        check([good, good.parent / ".." / good.parent.name / "good.rec"])


# Records of token ids


def test_documents_are_checked_against_their_vocabulary(tmp_path):
    texts = [b"first text", b"second", b"third one", b"second"]
    path = write(
        tmp_path / "a.rec", [tokens.prepare(text, tokens.tokenizer("bytes", ())).payload for text in texts]
    )
    described = tokens.metadata(tokens.tokenizer("bytes", ()), 4, 2 * (sum(map(len, texts)) + 4))
    tokens_path(path).write_bytes(described)
    assert kinds(path) == ["duplicate"]
    assert check([path]).files[0].contents["formats"] == {"tokens": 4}
    tokens_path(path).write_bytes(tokens.metadata(tokens.tokenizer("bytes", ()), 5, 80))
    texts = [finding.text for finding in check([path]).findings if finding.fault == "tokens"]
    assert ["says num_documents 5, there are 4" in texts[0], "says num_tokens 40, there are" in texts[1]] == [
        True
    ] * 2
    tokens_path(path).write_bytes(described)
    with RecordWriter(path) as writer:
        writer.write(0, 0.0, np.array([5, 256, 257], "<u2").tobytes())
        writer.write(1, 0.0, b"odd")
    texts = [finding.text for finding in check([path]).findings if finding.fault == "tokens"]
    assert "it has token 257, but the vocabulary ends at 256" in texts[0]
    assert "its 3 bytes are no row of uint16" in texts[1]
    for senseless in (
        "{",
        "[]",
        '{"dtype": "float64", "vocab_size": 3}',
        '{"dtype": "uint16", "vocab_size": "a"}',
    ):
        tokens_path(path).write_text(senseless)
        assert kinds(path) == ["tokens"]


# Files of other tools, and statistics of pictures


def test_a_file_of_another_tool_is_said_to_have_no_checksums(tmp_path):
    path = foreign(tmp_path / "a.rec", [jpeg(picture(seed)) for seed in range(4)])
    report = check([path])
    assert report.findings == []
    assert not report.files[0].has_checksums
    assert "without checksums" in next(check_report.as_text(report))


def test_progressive_and_restart_shares(tmp_path):
    options = [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 4), ()]
    payloads = [jpeg(picture(seed), *option) for seed, option in enumerate(options)]
    payloads.append(cv2.imencode(".png", picture(9))[1].tobytes())
    (file,) = check([write(tmp_path / "a.rec", payloads)]).files
    assert (file.contents["progressive_share"], file.contents["restart_share"]) == (0.25, 0.25)
    assert file.contents["formats"] == {"JPEG": 4, "PNG": 1}


def test_long_lists_are_cut_and_many_classes_summed_up(tmp_path):
    path = write(tmp_path / "a.rec", [b"x%d" % n for n in range(50)], [float(n) for n in range(50)])
    lines = list(check_report.as_text(check([path])))
    assert any("... and 40 more" in line for line in lines)
    assert any("30 classes of a size between these" in line for line in lines)
    assert len(lines) < 45


def test_no_kind_is_both_wrong_and_a_note():
    assert not set(findings.WRONG) & set(findings.NOTES)
