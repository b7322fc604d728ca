"""The example notebook, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ROOT


@pytest.mark.slow  # 4 s; what it calls is in test_library.py
def test_the_example_notebook_runs_and_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    found: dict[str, Any] = {"__name__": "__main__"}
    for cell in code:
        exec(compile(cell, "notebook", "exec"), found)
    assert found["scores"]["val_accuracy"] > 0.97
    assert len(found["wrong"]) == round((1 - found["scores"]["val_accuracy"]) * len(found["val"][1]))
    assert len(found["losses"]) == found["result"].history[-1]["step"] < 6 * 30  # the hook has ended it
    assert not any(cell.get("outputs") for cell in cells)
