"""Tables and files of arrays, packed, checked and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mxtrain.data.arrays import array_fields
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.data.pack_command import assert_one_line, in_this_process

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(1, 9, 40)
WAVES = RNG.normal(3, 2, (LENGTHS.sum(), 2)).astype(np.float32)
X, Y = RNG.normal(size=(40, 3)), RNG.normal(size=40)


def table(folder: Path, **changes: str) -> Path:
    """A CSV of 20 rows, some of which are others."""
    lines = [f"{number / 2},{-number},{'cat' if number % 2 else 'dog'}" for number in range(20)]
    for row, text in changes.items():
        lines[int(row[3:]) - 2] = text
    (folder / "a.csv").write_text("\n".join(["age,height,kind", *lines]))
    return folder / "a.csv"


def npz(folder: Path) -> Path:
    np.savez(folder / "a.npz", x=X, wave=WAVES, wave_lengths=LENGTHS, y=Y)
    return folder / "a.npz"


def packed(source: Path, out: Path, *flags: str) -> Any:
    done = in_this_process("pack", source, out, *flags)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("header", "suffix", "flags"), [("a,y", "", ["--target", "y"]), ("path,label", ".jpg", [])]
)
def test_targets_that_records_would_cut_away_are_refused(
    header: str, suffix: str, flags: list[str], tmp_path: Path
) -> None:
    """Records hold float32, which has steps of 128 at these numbers."""
    rows = [f"{number}{suffix},{1.7e9 + number + 0.5}" for number in range(20)]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
    done = in_this_process("pack", tmp_path / "a.csv", tmp_path / "out", *flags)
    assert_one_line(done, 3, "a.csv: what is to be predicted changes too little for numbers so large")
    assert not list(tmp_path.glob("out/*.rec"))


@pytest.mark.parametrize(("columns", "words"), [(1, "a number each (n0)"), (2, "2 numbers each (n0, n1)")])
def test_pictures_with_numbers_are_described_as_such(tmp_path: Path, columns: int, words: str) -> None:
    """The list that docs/arrays.md packs for --task regression."""
    lines = [",".join(["path", *(f"n{column}" for column in range(columns))])]
    for number in range(6):
        content = cv2.imencode(".jpg", np.full((8, 8, 3), 40 * number, np.uint8))[1].tobytes()
        (tmp_path / f"{number}.jpg").write_bytes(content)
        lines.append(",".join([f"{number}.jpg", *(f"{number / 4 + column}" for column in range(columns))]))
    (tmp_path / "list.csv").write_text("\n".join(lines))
    rec = tmp_path / "a.rec"
    done = packed(tmp_path / "list.csv", rec, "--multi-label")
    assert f"packed 6 images with {words}" in done.stdout and "class" not in done.stdout
    assert classes_path(rec).read_text() == "".join(f"n{column}\n" for column in range(columns))
    done = in_this_process("check", rec)
    assert done.returncode == 0 and "classes" not in done.stdout


def test_shards_hold_all_samples_and_the_statistics_of_all(tmp_path: Path) -> None:
    source = npz(tmp_path)
    packed(source, tmp_path / "one.rec", "--no-shuffle")
    packed(source, tmp_path / "four", "--shards", "4")
    shards = sorted((tmp_path / "four").glob("*.rec"))
    one, four = array_fields.read_sidecars([tmp_path / "one.rec"]), array_fields.read_sidecars(shards)
    assert one.as_json() == four.as_json()  # whatever the order, to the bit
    x, wave = one.inputs
    assert (wave.shape, wave.varies, x.shape) == ((LENGTHS.max(), 2), True, (3,))
    np.testing.assert_allclose(x.statistics.mean, X.astype(np.float32).mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(wave.statistics.deviation, WAVES.std(axis=0, dtype=np.float64))
    records, starts = open_records(tmp_path / "one.rec"), np.cumsum(LENGTHS) - LENGTHS
    np.testing.assert_array_equal(records.labels(), Y.astype(np.float32))
    for position in (0, 7, 39):
        found = array_fields.decode(one.inputs, records.read(position).payload)
        np.testing.assert_array_equal(found["x"], X[position].astype(np.float32))
        start = starts[position]
        np.testing.assert_array_equal(found["wave"], WAVES[start : start + LENGTHS[position]])


def test_words_are_classes_and_a_split_divides_each(tmp_path: Path) -> None:
    done = packed(table(tmp_path), tmp_path / "out", "--target", "kind", "--split", "0.5")
    assert "packed 20 samples of 2 classes" in done.stdout
    for name in ("train", "val"):
        records = open_records(tmp_path / "out" / f"{name}.rec")
        assert records.class_names == ["cat", "dog"]
        assert sorted(records.labels().tolist()) == [0] * 5 + [1] * 5
    checked = in_this_process("check", tmp_path / "out" / "train.rec", tmp_path / "out" / "val.rec")
    assert checked.returncode == 0 and "10 arrays" in checked.stdout, checked.stdout


def test_inputs_are_those_that_are_named(tmp_path: Path) -> None:
    packed(table(tmp_path), tmp_path / "a.rec", "--target", "height", "--inputs", "age")
    layout = array_fields.read_sidecars([tmp_path / "a.rec"])
    assert layout.inputs[0].names == ("age",) and layout.targets == ("height",)


def test_rows_that_no_net_can_take_are_listed_or_left_out(tmp_path: Path) -> None:
    source = table(tmp_path, row3="nan,1,cat", row5=",2,dog", row6="1,2,")
    refused = in_this_process("pack", source, tmp_path / "out", "--target", "kind")
    assert_one_line(refused, 3, "3 bad samples", "a.csv:", "--skip-bad")
    done = packed(source, tmp_path / "out", "--target", "kind", "--skip-bad")
    assert "packed 17 samples" in done.stdout
    listed = (tmp_path / "out.bad.tsv").read_text()
    for row, words in (
        ("3", "its age is empty, or no finite number"),
        ("6", "what is to be predicted is missing"),
    ):
        assert f"a.csv:{row}\t{words}" in listed
    (layout,) = [array_fields.read_sidecars([tmp_path / "out" / "data.rec"])]
    good = [number for number in range(20) if number not in (1, 3, 4)]
    np.testing.assert_allclose(layout.inputs[0].statistics.mean, [np.mean(good) / 2, -np.mean(good)])


def changed(path: Path, position: int, label: Any, payload: bytes) -> None:
    """Write a .rec again with one record changed, all checksums right."""
    records = open_records(path)
    kept = [records.read(each) for each in range(len(records))]
    with RecordWriter(path) as writer:
        for each, record in enumerate(kept):
            is_it = each == position
            writer.write(
                record.key, label if is_it else record.label, payload if is_it else bytes(record.payload)
            )


@pytest.mark.parametrize(
    ("label", "payload", "words"),
    [
        (0.5, b"", "WRONG: 1 x arrays"),
        (0.5, np.array([np.nan, 1, 2], "<f4").tobytes(), "its x holds a number that is not finite"),
        (0.5, bytes(16), "it holds 16 bytes, but its arrays end at byte 12"),
        (float("nan"), bytes(12), "WRONG: 1 x label"),
    ],
)
def test_check_finds_samples_that_are_wrong(tmp_path: Path, label: Any, payload: bytes, words: str) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    packed(tmp_path / "a.npz", tmp_path / "a.rec")
    assert in_this_process("check", tmp_path / "a.rec").returncode == 0
    changed(tmp_path / "a.rec", 7, label, payload)
    checked = in_this_process("check", tmp_path / "a.rec")
    assert checked.returncode == 3 and words in checked.stdout, checked.stdout


def test_check_finds_copies_leaks_and_a_sidecar_of_another_file(tmp_path: Path) -> None:
    twice = np.concatenate([X, X[:2]])
    np.savez(tmp_path / "a.npz", x=twice, y=np.arange(42) / 3)
    np.savez(tmp_path / "b.npz", x=np.concatenate([X[:1], X + 9]), y=np.arange(41) / 3)
    for name in "ab":
        packed(tmp_path / f"{name}.npz", tmp_path / f"{name}.rec")
    checked = in_this_process("check", tmp_path / "a.rec", tmp_path / "b.rec", "--json")
    kinds = [each["kind"] for each in json.loads(checked.stdout)["findings"]]
    assert kinds.count("duplicate") == 2 and "leak" in kinds and checked.returncode == 3
    array_fields.sidecar_path(tmp_path / "b.rec").replace(array_fields.sidecar_path(tmp_path / "a.rec"))
    assert "says num_records 41, there are 42" in in_this_process("check", tmp_path / "a.rec").stdout
    array_fields.sidecar_path(tmp_path / "a.rec").write_text("{")
    assert "a.arrays.json: it makes no sense" in in_this_process("check", tmp_path / "a.rec").stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], ["its first column has numbers", "--target", "--from arrays"]),
        (["--target", "kinds"], ["--target kinds", "did you mean 'kind'"]),
        (["--target", "kind", "--resize", "9"], ["--resize is for images, and the source holds arrays"]),
        (
            ["--target", "kind", "--tokenizer", "a:b"],
            ["--tokenizer is for text, and the source holds samples"],
        ),
        (["--target", "kind", "--multi-label"], ["--multi-label", "leave it out"]),
        (["--from", "csv", "--target", "kind"], ["--target", "CSV or TSV of path,label", "leave it out"]),
    ],
)
def test_flags_that_do_not_go_together(tmp_path: Path, flags: list[str], words: list[str]) -> None:
    assert_one_line(in_this_process("pack", table(tmp_path), tmp_path / "out", *flags), 2, *words)
    assert not (tmp_path / "out").exists()


def test_there_is_nothing_to_show(tmp_path: Path) -> None:
    packed(npz(tmp_path), tmp_path / "a.rec")
    assert_one_line(in_this_process("show", tmp_path / "a.rec"), 2, "holds arrays, not pictures")


def test_pictures_packed_over_arrays_leave_no_arrays(tmp_path: Path) -> None:
    from tests.support.data.binary_sources import PNGS

    packed(npz(tmp_path), tmp_path / "a.rec")
    (tmp_path / "images" / "one").mkdir(parents=True)
    (tmp_path / "images" / "one" / "a.png").write_bytes(PNGS[0])
    packed(tmp_path / "images", tmp_path / "a.rec")
    assert not array_fields.sidecar_path(tmp_path / "a.rec").exists()
