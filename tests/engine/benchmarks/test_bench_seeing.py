"""The benchmark of what seeing costs measures steps of both kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import seeing


@pytest.mark.slow  # tests/engine/train/telemetry/test_sampling.py: what it calls
def test_what_is_measured(tmp_path: Path) -> None:
    found = seeing.measure(seeing.Net("small_cnn", 32, 4), tmp_path, rounds=2)
    assert all(found[name] > 0 for name in ("step", "records", "layers", "look", "share"))
    assert found["share"] < found["share_each"]
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert kinds.count("train") == 6 and kinds.count("layers") == 3
    assert "small_cnn" in seeing.table({"small_cnn:32:4": found})
