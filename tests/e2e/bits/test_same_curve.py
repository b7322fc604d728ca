"""The benchmark's comparison, on whole runs: four devices are the same curve, another seed is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.same_curve.__main__ import MAPPINGS, Subject, digits, panel, table


@pytest.mark.slow  # tests/engine/train/test_mapping.py and tests/cluster/training/test_mappings.py hold the curves
def test_devices_are_the_same_curve_and_another_seed_is_not(tmp_path: Path) -> None:
    few_steps = ("--max-steps", "4")
    alone, four = ((*MAPPINGS[name], *few_steps) for name in ("1 device, accumulate 4", "4 devices"))
    subject = Subject("with_both", {"alone": alone, "four": four, "other seed": (*four, "--seed", "1")})
    found = panel("with_both", subject, digits(tmp_path), tmp_path / "runs")
    assert {len(curve) for curve in found.curves.values()} == {4}
    for name, expected in (("four", True), ("other seed", False)):
        runs = {each: found.curves[each] for each in ("alone", name)}
        assert table([found._replace(curves=runs)])[1] == expected
