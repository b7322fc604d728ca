"""The benchmark's comparison, on whole runs: four devices are the same curve, another seed is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.curves import Panel
from benchmarks.same_curve.__main__ import BAR, MAPPINGS, digits, table, train


@pytest.mark.slow  # tests/engine/test_mapping.py and tests/cluster/test_mappings.py hold the curves
def test_devices_are_the_same_curve_and_another_seed_is_not(tmp_path: Path) -> None:
    few_steps = ("--max-steps", "4")
    runs = {
        "alone": (*MAPPINGS["1 device, accumulate 4"], *few_steps),
        "four": (*MAPPINGS["4 devices"], *few_steps),
        "other seed": (*MAPPINGS["4 devices"], *few_steps, "--seed", "1"),
    }
    found = train("with_both", digits(tmp_path), tmp_path / "runs", runs)
    assert {len(curve) for curve in found.values()} == {4}
    for name, expected in (("four", True), ("other seed", False)):
        _, same = table([Panel(name, {"alone": found["alone"], name: found[name]}, BAR)])
        assert same == expected
