"""The table of nets that can be exported: a net of each family, and a row for whatever became of one."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import exporting
from benchmarks.harness import kept, tables
from mxtrain.config.components.zoo import gluoncv_names

APART = {"samples": 16, "absolute": 0.0, "relative": 0.0, "same_top1": 1.0, "bytes": 10}
FOUND = {"name": "a", "size": 32, "parameters": 1_500_000, "symbol": APART}


def test_every_family_is_there() -> None:
    assert {gluoncv_names.MODULE_OF[name] for name in exporting.NETS} == set(gluoncv_names.BY_MODULE)


def test_a_row_says_what_became_of_a_net() -> None:
    onnx = {**APART, "absolute": 1e-6, "relative": 2e-7}
    assert exporting.row({**FOUND, "onnx": onnx}) == ["a", "32", "1.5 M", "0", "1.0e-06", "2.0e-07", "100%"]
    refused = exporting.row({"name": "a", "size": 32, "parameters": 0, "refused": "it has no graph"})
    assert refused == ["a", "32", "0.0 M", "refused: no graph", "refused: no graph", "", ""]
    assert exporting.row({"name": "a", "failed": "not done"}) == ["a", "failed: not done", *[""] * 5]


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "known.jsonl"
    assert kept.read(path, "name") == {}
    lines = [{"name": "a", "failed": "late"}, {"name": "b"}, {**FOUND, "onnx": APART}]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert kept.read(path, "name") == {"a": lines[2], "b": lines[1]}


def test_the_page_has_a_row_for_each_net_of_the_table() -> None:
    table = tables.between_marks(exporting.PAGE, "exporting")
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")][2:]
    assert rows == list(exporting.NETS)
    assert "failed" not in table
