"""The benchmark of detection: its recipe and its bars."""

from __future__ import annotations

from benchmarks.detecting import __main__ as detecting
from benchmarks.detecting.__main__ import OURS, PRECISION, SPEED, THEIRS, Trained


def test_the_rate_falls_twice_near_the_end() -> None:
    assert detecting.lower_rate_at(20) == [16, 19]
    for epochs in range(1, 30):
        first, second = detecting.lower_rate_at(epochs)
        assert 0 < first < second


def test_bars_are_of_means_over_seeds_and_of_ratios_of_each() -> None:
    found = {
        OURS: [Trained(0.5, 13.0), Trained(0.7, 20.0), Trained(0.6, 10.0)],
        THEIRS: [Trained(0.6, 10.0), Trained(0.6, 10.0), Trained(0.6, 10.0)],
    }
    precision, speed = detecting.bars(found, [PRECISION, SPEED])
    assert (precision.found, precision.is_met) == ("0.600, 0.600", True)
    assert (speed.found, speed.is_met) == ("1.30", True)
    found[OURS][0] = Trained(0.4, 13.0)
    assert [each.is_met for each in detecting.bars(found, [PRECISION])] == [False]
