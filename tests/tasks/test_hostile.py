"""Every task refuses records that are wrong, by name, or passes them over with --skip-bad."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DATA, DataError
from mxtrain.data import fields
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.train import session
from tests.support.processes import fresh_python
from tests.support.runs import records
from tests.tasks.cases import Change
from tests.tasks.given import NUM_TRAIN, Given

WRONG = 5  # the position of the record that is wrong


def write_changed(folder: Path, name: str, change: Change) -> Path:
    """Write train.rec again as NAME.rec, with one record changed, and what belongs to it."""
    train = open_records(folder / "train.rec")
    for beside in folder.glob("train.*"):
        if beside.suffix not in (".rec", ".idx"):
            shutil.copy(beside, folder / beside.name.replace("train", name, 1))
    with RecordWriter(folder / f"{name}.rec") as writer:
        for position in range(len(train)):
            key, label, payload = train.read(position)
            label, payload = change(label, bytes(payload)) if position == WRONG else (label, bytes(payload))
            writer.write(key, label, payload)
    return folder / f"{name}.rec"


def read_all(given: Given, path: Path, out: Path, skip_bad: int = 0) -> tuple[list[Any], Any]:
    """Open the data as a run does and make all its samples, unaugmented; return what was skipped, and the arrays."""
    run = config.parse(given.line(out, f"--skip-bad {skip_bad}", path.name))
    inputs = session.open_inputs(run)
    task: Any = inputs.task
    train: Any = inputs.train
    assembly = SampleAssembly(train, task.reader(is_training=False), task.fields, 0, skip_bad)
    memory = np.zeros(fields.num_bytes(task.fields, len(train)), np.uint8)
    rows = fields.rows(task.fields, len(train), memory)
    skipped = assembly(BatchSlice(np.arange(len(train)), 0, 0, verify=True), rows)
    return skipped, fields.cut(task.fields, rows)


def test_a_record_that_is_wrong_is_named_or_passed_over(given: Given, tmp_path: Path) -> None:
    for number, (name, hostile) in enumerate(given.case.hostile.items()):
        path = write_changed(given.folder, f"hostile{number}", hostile.change)
        with pytest.raises(DataError) as refused:
            read_all(given, path, tmp_path)
        assert str(path) in str(refused.value), name
        assert hostile.words in str(refused.value), name
        if not hostile.is_skipped:
            continue
        skipped, arrays = read_all(given, path, tmp_path, skip_bad=1)
        assert [each.position for each in skipped] == [WRONG], name
        for field, array in arrays.items():
            np.testing.assert_array_equal(array[WRONG], array[WRONG + 1], err_msg=f"{name}: {field}")


@pytest.mark.slow  # the test above holds it in this process
def test_a_run_ends_at_a_wrong_record_or_counts_it(given: Given, tmp_path: Path) -> None:
    """The first that --skip-bad takes: the others differ in their words alone."""
    change, words, _ = next(each for each in given.case.hostile.values() if each.is_skipped)
    path = write_changed(given.folder, "hostile", change)
    said = given.fit(tmp_path / "ended", train=path.name, code=DATA)
    assert words in said.splitlines()[-1] and str(path) in said and "Traceback" not in said
    given.fit(tmp_path / "skipped", "--skip-bad 1", train=path.name)
    assert records(tmp_path / "skipped")[-2]["bad_records"] == 1
    assert records(tmp_path / "skipped")[-2]["step"] == NUM_TRAIN // 16 * 3


def test_samples_are_made_without_mxnet(given: Given, tmp_path: Path) -> None:
    """As checks before the rendezvous, packers and loader processes make them."""
    code = f"""
import sys
from mxtrain import config
from mxtrain.train import session
inputs = session.open_inputs(config.parse({given.line(tmp_path, "")!r}))
reader = inputs.task.reader(is_training=True)
import numpy as np
from mxtrain.data import fields
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly
assembly = SampleAssembly(inputs.train, reader, inputs.task.fields, 0)
memory = np.zeros(fields.num_bytes(inputs.task.fields, 8), np.uint8)
assembly(BatchSlice(np.arange(8), 0, 0, True), fields.rows(inputs.task.fields, 8, memory))
answer = [bool(memory.any()), "mxnet" in sys.modules]
"""
    assert fresh_python.answer(code) == [True, False]


def test_bytes_that_flip_are_found_by_the_checksum(given: Given, tmp_path: Path) -> None:
    path = write_changed(given.folder, "flipped", lambda label, payload: (label, payload))
    place = int((given.folder / "flipped.idx").read_text().splitlines()[WRONG + 1].split()[1]) - 8
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match="checksum"):
        read_all(given, path, tmp_path)
