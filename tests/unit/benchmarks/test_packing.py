"""The packing benchmark: both sides pack every picture, and a bar is met only when it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import packing
from benchmarks.loader import images
from benchmarks.packing import BARS, Cost


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["structure", "decoded", "as_is", "as_is_threads", "resized", "their_resized"]
)
def test_a_side_packs_every_picture(name: str, tmp_path: Path) -> None:
    source = images.folder_of(images.make(tmp_path, 32)["plain"])
    outcome = packing.measure(packing.SIDES[name], source)
    assert isinstance(outcome, Cost), outcome
    assert 0 < 32 * outcome.cpu_milliseconds / 1000 < outcome.cpu_seconds
    assert not [path for path in source.parent.iterdir() if path.name.startswith("tmp")]


def test_a_side_that_fails_meets_no_bar() -> None:
    results = {name: [Cost(1.0, 1.0, 1.0, 1.0)] for name in packing.SIDES}
    for bar in BARS:
        results[bar.ours] = [Cost(1.0, 1.0, bar.most, 1.0)]
    text, all_met = packing._render_bars(results)
    assert all_met and text.count("| met |") == len(BARS)
    results["structure"] = [Cost(0.1, 1.0, 1.0, 1.0), "failed: no such flag"]
    text, all_met = packing._render_bars(results)
    assert not all_met and text.count("| not measured |") == 1
