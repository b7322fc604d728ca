"""Tables with ids that are larger than memory should have to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mxtrain.data.arrays import array_fields
from mxtrain.data.ids import id_reader
from mxtrain.data.records.record_file import open_records
from tests.support.checkout import ROOT

FLAGS = ["--from", "ids", "--target", "click", "--categories", "user,item", "--lists", "tags", "--quiet"]
PROGRAM = """
import sys
from tools.im2rec_wrapper.__main__ import main
try:
    main(["pack", *sys.argv[1:]])
finally:
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


def write(path: Path, num_rows: int) -> None:
    """Write rows that come again and again."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 10**6, (2, 10_000))
    block = "".join(
        f"{row % 2},{user},{item},{user / 7:.3f},{row % 90}|{user % 90}\n"
        for row, (user, item) in enumerate(zip(users.tolist(), items.tolist()))
    )
    with path.open("w") as file:
        file.write("click,user,item,price,tags\n")
        for _ in range(num_rows // 10_000):
            file.write(block)


def megabytes_of_packing(source: Path, out: Path) -> float:
    command = [sys.executable, "-c", PROGRAM, str(source), str(out), *FLAGS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1]) / 1024


@pytest.mark.slow  # a million records
@pytest.mark.timeout(500)
def test_a_million_rows_are_not_held_in_memory(tmp_path: Path) -> None:
    write(tmp_path / "few.csv", 20_000)
    write(tmp_path / "many.csv", 1_000_000)
    few = megabytes_of_packing(tmp_path / "few.csv", tmp_path / "few")
    many = megabytes_of_packing(tmp_path / "many.csv", tmp_path / "many")
    # Arrays alone are 64 bytes a row, and an item of Python's some 200; what stays are order and labels.
    assert many - few < 100
    assert len(open_records(tmp_path / "many" / "data.rec")) == 1_000_000
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == [
        *("data.arrays.json", "data.idx", "data.rec", "data.sources.tsv")
    ]


def test_records_are_those_of_the_rows_in_any_order(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 10_000)
    megabytes_of_packing(tmp_path / "a.csv", tmp_path / "out")
    (rec,) = (tmp_path / "out").glob("*.rec")
    layout, records = array_fields.read_sidecars([rec]), open_records(rec)
    columns, labels = id_reader.columns_of(records, np.arange(len(records)), layout.inputs, True)
    assert labels is not None and labels.sum() == 5000
    numbers = np.sort(columns["numbers"][:, 0])
    written = [float(line.split(",")[3]) for line in (tmp_path / "a.csv").read_text().splitlines()[1:]]
    np.testing.assert_array_equal(numbers, np.sort(np.array(written, np.float32)))
    statistics = next(each for each in layout.inputs if each.name == "numbers").statistics
    assert statistics is not None and statistics.mean == pytest.approx(numbers.astype(float).mean())
    assert columns["tags"].lengths.sum() == 20_000
