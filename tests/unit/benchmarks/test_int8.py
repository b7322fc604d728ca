"""The tables of benchmarks.int8, and what it calls a bar that is not met."""

from __future__ import annotations

from typing import Any

from benchmarks.int8 import tables


def known(in_int8: float, milliseconds: float) -> dict[str, Any]:
    """What is known of two seeds whose accuracies are a hundredth apart, and of resnet18's speed."""
    found: dict[str, Any] = {}
    for seed, in_float32 in enumerate((0.97, 0.98)):
        sides = {**dict.fromkeys(tables.SIDES, in_float32), tables.INT8: in_float32 - in_int8}
        found[f"accuracy:digits:{seed}"] = {"accuracy": sides, "samples": 539}
    times = {**dict.fromkeys(tables.SIDES, 12.0), tables.INT8: milliseconds}
    found["speed:resnet18:32"] = {"milliseconds": times, "kernels": "AVX512_CORE_BF16"}
    return found


def test_int8_may_lose_what_seeds_differ_by_and_has_to_gain_three_times() -> None:
    assert tables.problems(known(0.009, 4.0)) == []
    (loss,) = tables.problems(known(0.011, 4.0))
    assert loss == "digits: int8 loses 1.10% of accuracy on average, seeds differ by 1.00%"
    (gain,) = tables.problems(known(0.0, 4.1))
    assert gain == "speed:resnet18:32: int8 is 2.9 times as fast as float32; the bar is 3.0"
    assert tables.problems({"family:alexnet": {"failed": "why"}}) == ["family:alexnet: why"]


def test_a_table_has_a_row_for_each_entry_and_a_cell_for_each_side() -> None:
    family = {"int8": 9, "float32": {"Pad": 2}, "ranges": "entropy", "relative": 0.02, "same_top1": 0.5}
    text = tables.render({**known(0.005, 4.0), "family:alexnet": family})
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line]
    assert ["digits, small_cnn, seed 1", "98.00%", "98.00%", "97.50%", "98.00%", "98.00%"] in rows
    assert ["resnet18_v1b, 224 px", "32", "12.00", "12.00", "12.00", "4.00", "12.00", "12.00", "3.0"] in rows
    assert ["alexnet", "9", "2 Pad", "2.0e-02", "50%", "entropy"] in rows
