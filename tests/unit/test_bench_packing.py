"""The packing benchmark: both sides pack every picture, and a bar is met only when it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import packing
from benchmarks.loader import images
from benchmarks.packing import BARS, Cost


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decoded", "as_is", "as_is_threads", "resized", "their_resized"])
def test_a_side_packs_every_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "FEW", 16)
    monkeypatch.setattr(packing, "ALL", 48)
    few, many = (images.folder_of(images.make(tmp_path, number)["plain"]) for number in (16, 48))
    outcome = packing.measure(packing.SIDES[name], few, many)
    assert isinstance(outcome, Cost), outcome
    assert outcome.cpu_seconds > 0.05
    assert not [path for path in many.parent.iterdir() if path.name.startswith("tmp")]


def test_a_side_that_fails_meets_no_bar() -> None:
    results = {name: [Cost(1.0, 1.0, 1.0, 1.0)] for name in packing.SIDES}
    for bar in BARS:
        results[bar.ours] = [Cost(bar.most, 1.0, 1.0, 1.0)]
    text, all_met = packing._render_bars(results)
    assert all_met and text.count("| pass |") == len(BARS)
    results["structure"] = [Cost(0.1, 1.0, 1.0, 1.0), "failed: no such flag"]
    text, all_met = packing._render_bars(results)
    assert not all_met and text.count("FAIL: not measured") == 1
