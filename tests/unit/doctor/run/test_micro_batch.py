"""The search for the largest micro-batch, over an attempt that knows how much memory there is."""

from __future__ import annotations

import pytest

from mxtrain.doctor.run import micro_batch, run_doctor
from mxtrain.doctor.run.micro_batch import Fit
from mxtrain.doctor.run.rates import Rate


def search(room: int, first: int, most: int) -> list[Fit]:
    """Find the largest of sizes up to `room`; each size is tried once."""
    tried: list[int] = []

    def attempt(size: int) -> Fit:
        assert size not in tried and 1 <= size <= most
        tried.append(size)
        return Fit(size, Rate(1, 1, 1)) if size <= room else Fit(size, reason="too large")

    found = micro_batch.search(attempt, first, most)
    assert sorted(tried) == [each.size for each in found]
    return found


def largest(found: list[Fit]) -> int:
    return max((each.size for each in found if each.rate), default=0)


@pytest.mark.parametrize("first", [1, 5, 32, 64])
@pytest.mark.parametrize("room", [1, 2, 7, 31, 32, 33, 60, 64, 100])
def test_it_comes_close_to_the_largest_from_wherever_it_begins(first: int, room: int) -> None:
    found = search(room, first, most=64)
    best = min(room, 64)
    assert best / (1 + 1.5 * micro_batch.CLOSE_ENOUGH) - 1 <= largest(found) <= best
    assert len(found) <= 12
    failed = [each.size for each in found if not each.rate]
    assert not failed or min(failed) <= 2 * largest(found), "twice as much does not fit"


def test_where_not_even_one_sample_fits_it_ends() -> None:
    found = search(0, 8, most=64)
    assert largest(found) == 0 and [each.size for each in found] == [1, 2, 4, 8]


def found_with(rates: dict[int, float], given: int = 32) -> dict[str, object]:
    tried = [Fit(size, Rate(rate, 0.97 * rate, 1.03 * rate)) for size, rate in rates.items()]
    return {"tried": tried, "given": given, "has_running_statistics": True}


def test_the_fastest_is_advised_only_beyond_chance_and_with_what_it_changes() -> None:
    (advice,) = micro_batch.advice(found_with({16: 150, 32: 100, 64: 110}), "images", 1)
    assert advice.startswith("--micro-batch 16: 150 ±3% images/s instead of 100 ±3% with 32")
    assert "BatchNorm" in advice
    assert not micro_batch.advice(found_with({16: 104, 32: 100}), "images", 1)
    (advice,) = micro_batch.advice(found_with({8: 90, 16: 80}), "images", 1)
    assert advice.startswith("--micro-batch 8: 90 ±3% images/s: 32 does not fit")


def test_the_default_is_what_a_minute_allows() -> None:
    assert run_doctor.chosen("") == ("memory", "data", "compute", "comm")
    assert run_doctor.chosen("rate, data") == ("data", "rate")
