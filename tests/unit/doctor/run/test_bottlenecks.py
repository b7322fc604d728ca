"""Tests of what bounds a run, and which flags are advised, from measured rates."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain.doctor.run import bottlenecks, rates, run_speed
from mxtrain.doctor.run.bottlenecks import Variant
from mxtrain.doctor.run.rates import Rate


def around(value: float, spread: float = 0.05) -> Rate:
    return Rate(value, value * (1 - spread), value * (1 + spread))


def test_the_slowest_part_bounds_a_run_and_the_next_says_by_how_much() -> None:
    found = bottlenecks.find({"data": around(310), "compute": around(190)}, "images")
    assert found.part == "compute"
    assert found.sentence == (
        "compute-bound: data 310 ±5%, compute 190 ±5% images/s; data could feed 1.63 times that"
    )
    found = bottlenecks.find({"data": around(40), "compute": around(190), "comm": around(80)}, "images")
    assert found.part == "data" and "sums could keep up with 2 times that" in found.sentence


def test_parts_whose_spreads_overlap_are_level() -> None:
    found = bottlenecks.find({"data": around(100, 0.1), "compute": around(110, 0.1)}, "images")
    assert found.part is None and found.sentence.startswith("data and compute are level")


def test_only_what_bounds_the_run_is_advised_and_only_beyond_chance() -> None:
    parts = {"data": around(100), "compute": around(150)}
    tried = [
        Variant("data", "--loader-workers 1", around(60)),
        Variant("data", "--loader-workers 2", around(104)),
        Variant("data", "--loader-workers 4", around(200)),
        Variant("compute", "--amp bf16", around(400)),
    ]
    (advice,) = bottlenecks.advise(parts, tried, "images")
    assert advice.flags == "--loader-workers 4"
    assert advice.factor == pytest.approx(1.5), "compute is the limit then"
    assert "of which 150 are of use" in advice.sentence
    assert not bottlenecks.advise(parts, tried[:2], "images"), "within the spreads"
    assert [each.flags for each in bottlenecks.advise({"compute": around(150)}, tried, "images")] == [
        "--amp bf16"
    ]


def test_nothing_follows_from_noise() -> None:
    noise = Rate(154, 30, 516.6)
    assert str(noise) == "154 ±158% (noise)" and str(around(10, 0.4)) == "10 ±40%"
    assert not rates.is_faster(noise, around(10)) and rates.is_faster(around(154), around(10))
    tried = [Variant("compute", "--threads 2", noise)]
    assert not bottlenecks.advise({"compute": around(10)}, tried, "images")
    assert not bottlenecks.advise(
        {"compute": Rate(10, 1, 12)}, [Variant("compute", "--threads 2", around(154))], "images"
    )
    measured: dict[str, Any] = {"data": None, "comm": None, "compute": {"rate": around(10), "variants": []}}
    assert not run_speed.noise(measured)
    measured["compute"]["variants"].append({"flags": {"threads": 2}, "rate": noise})
    assert "noise: measure again" in run_speed.noise(measured)[0] and not run_speed.advice(
        measured, "images", 1
    )
    found = bottlenecks.find({"data": noise, "compute": around(10)}, "images")
    assert (
        found.part is None
        and "data 154 ±158% (noise), compute 10 ±5% images/s: that is noise" in found.sentence
    )


def test_a_step_is_compared_with_its_slowest_part() -> None:
    parts = {"data": around(300), "compute": around(190)}
    assert bottlenecks.together(parts, around(186), 0.02) == "2% of its time waiting for data"
    assert "; 21% slower than its slowest part alone" in bottlenecks.together(parts, around(150), 0.0)


def test_a_rate_is_the_median_of_windows_and_the_range_of_their_middle_half() -> None:
    steady = rates.of_events([0.5 * number for number in range(41)], [10] * 41)
    assert tuple(steady) == pytest.approx((20, 20, 20)) and str(steady) == "20 ±0%"
    times = [0.0]
    for number in range(40):
        times.append(times[-1] + (1.0 if number < 5 else 0.1))  # a pause of others' making
    assert rates.of_events(times, [1] * 41).median == pytest.approx(10)
    assert rates.of_events([0, 2], [0, 8]) == Rate(4, 4, 4)
