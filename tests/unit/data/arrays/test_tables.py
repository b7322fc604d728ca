"""Tables and files of arrays: what of them is an input, what a target, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.arrays import array_fields, array_sets, statistics, tables
from mxtrain.data.arrays.table_selection import Selection

VECTORS = np.arange(12.0).reshape(4, 3)
SERIES = [np.arange(2.0 * length).reshape(length, 2) for length in (3, 1, 4, 2)]
TARGETS = np.array([0.5, 1.5, -2.0, 4.0])


def csv(folder: Path, text: str, name: str = "a.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def npz(folder: Path, **columns: Any) -> Path:
    np.savez(folder / "a.npz", **columns)
    return folder / "a.npz"


def samples(path: Path, target: str = "") -> list[dict[str, Any]]:
    found = tables.open_records(path, Selection(target))
    return [found.read(position).payload for position in range(len(found))]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_columns_of_a_table_are_one_vector(tmp_path: Path, separator: str) -> None:
    text = "age,height,kind\n1,2.5,cat\n3,1e2,dog\n-1, 4 ,cat\n".replace(",", separator)
    found = tables.open_records(csv(tmp_path, text), Selection("kind"))
    assert found.layout.inputs == (array_fields.Input("data", (2,), "float32", names=("age", "height")),)
    assert found.class_names == ["cat", "dog"] and found.labels().tolist() == [0, 1, 0]
    np.testing.assert_array_equal(found.read(1).payload["data"], [3, 100])
    assert found.where(1).endswith("a.csv: row 3")
    two = tables.open_records(csv(tmp_path, "a,b,c\n1,2,3\n4,5,6\n"), Selection("c,a"))
    np.testing.assert_array_equal(two.labels(), [[3, 1], [6, 4]])
    assert two.layout.targets == ("c", "a")


def test_every_kind_of_file_gives_the_same_samples(tmp_path: Path) -> None:
    rows, lengths = np.concatenate(SERIES), [len(each) for each in SERIES]
    of_npz = npz(tmp_path, x=VECTORS, wave=rows, wave_lengths=lengths, y=TARGETS)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["wave"], file["wave_lengths"], file["y"] = VECTORS, rows, lengths, TARGETS
    expected = tables.open_records(of_npz)
    for path in (of_npz, tmp_path / "a.h5"):
        found = tables.open_records(path)
        assert sorted(found.layout.inputs) == sorted(expected.layout.inputs)
        assert {each.name: (each.shape, each.varies) for each in found.layout.inputs} == {
            "x": ((3,), False),
            "wave": ((4, 2), True),
        }
        np.testing.assert_array_equal(found.labels(), TARGETS)
        for position in range(4):
            payload = found.read(position).payload
            np.testing.assert_array_equal(payload["x"], VECTORS[position])
            np.testing.assert_array_equal(payload["wave"], SERIES[position])


def test_parquet_has_numbers_words_and_lists(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "age": [1, 2, 3, 4],
        "wave": [each.tolist() for each in SERIES],
        "beat": [[1.0], [2.0, 3.0], [4.0], [5.0]],
        "kind": pyarrow.array(["b", "a", "b", "a"]).dictionary_encode(),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    found = tables.open_records(tmp_path / "a.parquet", Selection("kind"))
    assert [(each.name, each.shape, each.varies) for each in found.layout.inputs] == [
        ("data", (1,), False),
        ("wave", (4, 2), True),
        ("beat", (2,), True),
    ]
    assert found.class_names == ["a", "b"] and found.labels().tolist() == [1, 0, 1, 0]
    np.testing.assert_array_equal(found.read(2).payload["wave"], SERIES[2])
    prices = pyarrow.array(
        [Decimal("1.25"), Decimal("2.5"), Decimal("3"), Decimal("-4.75")], pyarrow.decimal128(8, 2)
    )
    parquet.write_table(pyarrow.table({"price": prices, "y": prices}), tmp_path / "d.parquet")
    found = tables.open_records(tmp_path / "d.parquet")
    assert found.labels().tolist() == [1.25, 2.5, 3, -4.75]
    assert found.read(3).payload["data"].tolist() == [-4.75]
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(DataError, match="is no Parquet file, or a damaged one"):
        tables.open_records(tmp_path / "b.parquet")


def test_arrays_of_different_lengths_in_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        ragged = file.create_dataset("wave", (3,), dtype=h5py.vlen_dtype(np.float32))
        for place, values in enumerate(([1, 2], [3], [4, 5, 6])):
            ragged[place] = values
        file["group/kind"] = ["x", "y", "x"]
    found = tables.open_records(tmp_path / "a.h5", Selection("group/kind"))
    assert found.layout.inputs == (array_fields.Input("wave", (3,), "float32", varies=True),)
    assert found.class_names == ["x", "y"]
    np.testing.assert_array_equal(found.read(2).payload["wave"], [4, 5, 6])


def test_a_table_of_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", VECTORS)
    found = tables.open_records(tmp_path / "plain.npy", Selection("2"))
    assert found.labels().tolist() == [2, 5, 8, 11] and found.layout.inputs[0].names == ("0", "1")
    named = np.zeros(3, [("size", "f4"), ("kind", "U3")])
    named["kind"] = ["a", "b", "a"]
    np.save(tmp_path / "named.npy", named)
    assert tables.open_records(tmp_path / "named.npy", Selection("kind")).class_names == ["a", "b"]


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        (np.array([[0], [255]], np.uint8), "uint8"),
        (np.array([[True], [False]]), "uint8"),
        (np.array([[0.1], [0.2]]), "float32"),
        (np.array([[1.6e9], [1.6e9 + 60]]), "float64"),  # a float32 has steps of 128 there
        (np.array([[1.6e9], [1.6e9]]), "float32"),
        (np.array([[1 << 40], [1]]), "float32"),
        (np.array([[1], [2]], ">i2"), "int16"),
    ],
)
def test_records_keep_as_many_digits_as_tell_numbers_apart(tmp_path: Path, column: Any, dtype: str) -> None:
    found = tables.open_records(npz(tmp_path, x=column, y=[1.0, 2.5]))
    assert found.layout.inputs[0].dtype == dtype
    np.testing.assert_allclose(found.read(1).payload["x"], column[1], rtol=1e-7)


FAR = 1.7e9 + np.arange(60.0)  # where a float32 has steps of 128


@pytest.mark.parametrize(
    ("targets", "dtype"),
    [
        (FAR, np.float64),
        (FAR.astype(np.int64), np.float64),
        (np.stack([FAR, np.arange(60.0)], axis=1), np.float64),
        (FAR - FAR.mean(), np.float32),
        (np.full(60, 1.7e9 + 1), np.float32),
        (1000.1 + FAR % 7, np.float32),
        (np.array([*FAR, np.nan]), np.float64),
    ],
)
def test_labels_keep_what_tells_targets_apart(tmp_path: Path, targets: Any, dtype: Any) -> None:
    table = tables.read(npz(tmp_path, x=np.ones((len(targets), 2)), y=targets))
    assert table.labels.dtype == dtype
    np.testing.assert_array_equal(table.labels, targets.astype(dtype))


def test_a_target_beyond_float32_is_refused_beside_far_ones(tmp_path: Path) -> None:
    targets = np.stack([FAR, np.where(FAR[7] == FAR, 1e39, 1.0)], axis=1)
    with pytest.raises(
        DataError, match="sample 7: what is to be predicted is missing, or is no finite number"
    ):
        tables.open_records(npz(tmp_path, x=np.ones((60, 2)), y=targets))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y\n1,2\n,3\n5,6\n", "row 3: its a is empty, or no finite number"),
        ("a,y\n1,2\nnan,3\n", "row 3: its a is empty, or no"),
        ("a,y\n1,2\nseven,3\n", "row 3: its a is empty, or no"),
        ("a,y\n1,2\n2,\n", "row 3: what is to be predicted is missing"),
        (
            "a,y\n1,2\n2,1e39\n",
            "row 3: what is to be predicted is missing, or is no finite number of float32",
        ),
        ("a,y\n1,2\n1e39,3\n", "row 3: its a holds a number above"),
        ("a,y\n1,2\n3\n", "row 3 has 1 cells, the first line 2"),
        ('a,y\n1,2\n"3,4\n', "has a quote that nothing closes"),
        ("1,2\n3,4\n", "its first line has numbers"),
        ("a,a,y\n1,2,3\n", "names column 'a' twice"),
        ("a,y\nred,2\nblue,3\n", "column a holds words ('red')"),
        ("a,y\n", "holds no samples"),
        ("", "is empty"),
        ("y\n1\n", "holds no more than what is to be predicted"),
    ],
)
def test_a_bad_table_is_refused_by_its_row(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError) as refused:
        tables.open_records(csv(tmp_path, text))
    assert words in str(refused.value) and "a.csv" in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": VECTORS, "y": TARGETS[:3]}, "of different numbers of samples (x: 4, y: 3)"),
        ({"x": VECTORS.astype(complex), "y": TARGETS}, "x holds complex128, not numbers"),
        ({"x": np.array([1, "a"], object), "y": TARGETS[:2]}, "give all rows, and NAME_lengths"),
        ({"x": VECTORS, "x_lengths": [1, 1, 1], "y": TARGETS[:3]}, "which add up to the 4 rows of x"),
        ({"x": np.zeros((4, 0)), "y": TARGETS}, "holds nothing"),
        ({"x": VECTORS, "y": 3.0}, "y is a single value"),
        ({"x": VECTORS, "y": np.zeros((4, 2, 2))}, "y cannot be predicted"),
        ({"x": VECTORS * [1, np.inf, 1], "y": TARGETS}, "sample 0: its x holds a number that is not finite"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError) as refused:
        tables.open_records(npz(tmp_path, **columns))
    assert words in str(refused.value) and "a.npz" in str(refused.value)


@pytest.mark.parametrize(
    ("dtype", "num_refused"), [("float16", 3), ("float32", 3), ("float64", 4), ("int64", 0), ("bool", 0)]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
def test_rows_that_are_refused_are_those_that_are_refused_one_by_one(
    dtype: str, num_refused: int, shape: tuple[int, ...]
) -> None:
    values = np.ones((9000, *shape), dtype)
    if num_refused:
        for row, number in zip([0, 4095, 4096, 8999], [np.nan, np.inf, -np.inf, 1e39]):
            values[row] = number if number != 1e39 or dtype == "float64" else 6e4
    found = statistics.rows_refused(values)
    np.testing.assert_array_equal(found, [statistics.refused(row) is not None for row in values])
    assert found.sum() == num_refused * (0 not in shape)


def test_of_many_rows_those_that_are_bad_are_looked_at(tmp_path: Path) -> None:
    x, y = np.ones((10_000, 3)), np.ones(10_000)
    x[5000, 1], y[7000] = 1e39, np.nan
    path = npz(tmp_path, x=x, y=y)
    table = tables.read(path)
    assert table.bad() == [5000, 7000] == [each for each in range(10_000) if table.problem(each)]
    with pytest.raises(DataError, match=r"sample 5000: its x holds a number above 3.40282e\+38; 2 such"):
        tables.open_records(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path, x=VECTORS, y=TARGETS)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="is no whole file of NumPy's"):
        tables.open_records(path)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("", "give --target and names of its columns (age, size)"),
        ("sice", "did you mean 'size'"),
        ("a,a", "a"),
    ],
)
def test_a_target_that_is_not_there(tmp_path: Path, target: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        tables.open_records(csv(tmp_path, "age,size\n1,2\n"), Selection(target))
    assert words in str(refused.value)


# Payloads and the .arrays.json

INPUTS = (
    array_fields.Input("x", (3,), "float64"),
    array_fields.Input("wave", (4, 2), "int16", varies=True),
    array_fields.Input("beat", (5,), "float32", varies=True, names=()),
)


def test_a_payload_holds_arrays_to_the_bit() -> None:
    for length in (0, 1, 4):
        values = {"x": VECTORS[1], "wave": np.arange(2 * length).reshape(length, 2), "beat": np.arange(5.0)}
        found = array_fields.decode(INPUTS, array_fields.encode(INPUTS, values))
        assert {name: each.dtype.name for name, each in found.items()} == {
            "x": "float64",
            "wave": "int16",
            "beat": "float32",
        }
        for name, array in values.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("cut", [0, 4, 8, 20, 33, 43, 63])
def test_a_payload_that_is_cut_or_longer_is_refused(cut: int) -> None:
    values = {"x": VECTORS[1], "wave": np.zeros((3, 2)), "beat": np.arange(5.0)}
    whole = array_fields.encode(INPUTS, values)
    assert len(whole) == 64
    for payload in (whole[:cut], whole + b"0"):
        with pytest.raises(array_fields.BadSample, match="it holds"):
            array_fields.decode(INPUTS, payload)


def test_the_sidecar_says_all_there_is() -> None:
    measured = array_fields.measured(
        INPUTS, [{"x": VECTORS[k], "wave": SERIES[k], "beat": VECTORS[k]} for k in range(4)]
    )
    layout = array_fields.Layout(measured, ("price",))
    found, number = array_fields.parse_sidecar(array_fields.format_sidecar(layout, 4))
    assert found.as_json() == layout.as_json() and number == 4
    np.testing.assert_allclose(measured[0].statistics.mean, VECTORS.mean(axis=0))
    np.testing.assert_allclose(measured[1].statistics.mean, np.concatenate(SERIES).mean(axis=0))
    np.testing.assert_allclose(measured[2].statistics.deviation, [VECTORS.std()])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-20],
        lambda text: text.replace("float64", "object"),
        lambda text: text.replace('"x"', '"wave"'),
        lambda text: text.replace('"mean": [', '"mean": [1.0, '),
        lambda text: text.replace('"shape"', '"form"'),
        lambda text: "[]",
    ],
)
def test_a_sidecar_that_makes_no_sense_is_refused(change: Any, tmp_path: Path) -> None:
    measured = array_fields.measured(INPUTS, [{"x": VECTORS[0], "wave": SERIES[0], "beat": VECTORS[0]}])
    text = change(array_fields.format_sidecar(array_fields.Layout(measured), 1).decode())
    with pytest.raises(ValueError, match="makes no sense"):
        array_fields.parse_sidecar(text.encode())
    (tmp_path / "a.arrays.json").write_text(text)
    with pytest.raises(DataError, match=r"a\.arrays\.json: it makes no sense.*pack again"):
        array_fields.read_sidecars([tmp_path / "a.rec"])


def test_inputs_of_a_users_own_samples_may_vary(tmp_path: Path) -> None:
    found = array_sets.input_of_shapes("own", "wave", {(3, 2), (5, 2)})
    assert found.shape == (5, 2) and found.varies and found.multiple == 1
    assert array_fields.Input("wave", (100, 2), varies=True).multiple == 13
    for shapes in ({(3, 2), (3, 3)}, {()}, {(3,), (3, 2)}):
        with pytest.raises(DataError, match="own: wave has samples of shape"):
            array_sets.input_of_shapes("own", "wave", shapes)
