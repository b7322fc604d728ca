"""The comparison of steps: which of PyTorch's forms counts, bars that can fail, work that has to be the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.step import results, table
from benchmarks.step.nets import NETS, batch
from benchmarks.step.results import Found, Measured
from benchmarks.step.turns import Peak

LOSSES = [7.0, 6.5, 6.0]


def measured(seconds: list[float], megabytes: float = 1000, losses: list[float] = LOSSES) -> Measured:
    return Measured(seconds, losses, megabytes)


def found(ours: float, megabytes: float = 1000) -> Found:
    """Return a measurement of a net with 10 GFLOP a step, on a machine that computes 20 GFLOP/s."""
    forms = {"contiguous": measured([4.0]), "channels_last": measured([2.0] * 3)}
    peaks = {"mxtrain": Peak(20, 10), "torch": Peak(18, 19)}
    return Found(32, "images", 100, int(1e10 / 6), measured([ours] * 3, megabytes), forms, peaks, 0.1)


def all_found(**changed: Found) -> results.Results:
    return {
        "resnet18": {"off": changed.get("resnet18", found(1.9)), "bf16": found(1.9)},
        "resnet50": {"off": changed.get("resnet50", found(1.5)), "bf16": found(1.9)},
        "mobilenetv2": {"off": found(1.8), "bf16": changed.get("mobilenetv2_bf16", found(1.8))},
    }


def test_a_net_is_compared_with_the_fastest_form_that_took_part_in_all_rounds() -> None:
    one_good_round = found(1.0)._replace(
        torch={"compiled": measured([0.1]), "contiguous": measured([2.0, 3.0, 9.0])}
    )
    assert one_good_round.best_form == "contiguous" and one_good_round.ratio == 3
    assert found(1.0).best_form == "channels_last" and found(1.0).ratio == 2


def test_rates_and_shares_are_of_mxtrains_median() -> None:
    one = found(2.0)._replace(ours=measured([1.0, 2.0, 100.0], megabytes=1500))
    assert one.gigaflops == pytest.approx(5) and one.of_peak == pytest.approx(0.25) and one.memory == 1.5
    line = table.render({"resnet18": {"bf16": one}}).splitlines()[-1]
    assert line == (
        "| resnet18, 32 images | bf16 | 16.0 | 16.0 channels_last | 1.00 | 1500, 1000 | 1.50 | 5 | 25% |"
    )


def test_all_bars_are_met_when_they_are() -> None:
    text, all_met = table.render_bars(all_found())
    assert all_met and "MISSED" not in text and text.count("| met |") == 7 + 6


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"resnet18": found(1.95)}, "resnet18, float32: times as fast"),
        ({"resnet50": found(1.6)}, "resnet50, float32: times as fast"),
        ({"mobilenetv2_bf16": found(1.81)}, "mobilenetv2: bf16 times as fast as our float32"),
        ({"resnet18": found(1.9, megabytes=1201)}, "resnet18, float32: peak memory"),
    ],
)
def test_each_bar_can_fail(changed: dict[str, Found], line: str) -> None:
    text, all_met = table.render_bars(all_found(**changed))
    failed = [each for each in text.splitlines() if "MISSED" in each]
    assert not all_met and len(failed) == 1 and failed[0].startswith(f"| {line}")


def test_what_was_not_measured_is_not_met() -> None:
    text, all_met = table.render_bars({"gpt": {"off": found(1.0)}})
    assert not all_met and text.count("| not measured |") == 6


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ([7.002, 6.5, 6.0], "the first loss of torch, contiguous"),
        ([7.0, 6.6, 6.0], "the first update of torch, contiguous"),
        ([7.0, 6.5, 7.5], "contiguous does not learn"),
        ([7.0, 6.5, float("nan")], "contiguous does not learn"),
        ([float("nan"), 6.5, 6.0], "the first loss of torch, contiguous"),
    ],
)
def test_a_side_that_is_fast_and_wrong_is_named(theirs: list[float], said: str) -> None:
    assert results.problems(found(1.0), "off") == []
    wrong = found(1.0)._replace(torch={"contiguous": measured([1.0], losses=theirs)})
    assert results.problems(wrong, "off")[0].startswith(said)


def test_mxtrain_has_to_learn_too() -> None:
    """As a net after `optimize_for('MKLDNN')` does not, which is fast."""
    still = found(1.0)._replace(ours=measured([1.0], losses=[7.0, 7.0, 7.0]))
    assert any(problem.startswith("mxtrain does not learn") for problem in results.problems(still, "off"))


def test_results_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    assert results.read(path) == {}
    results.write(path, all_found())
    assert results.read(path) == all_found()


@pytest.mark.parametrize("name", NETS)
def test_batches_repeat_and_have_a_class_for_each_sample(name: str) -> None:
    net = NETS[name]._replace(batch_size=2)
    (inputs, label), (others, _) = batch(net), batch(net)
    pairs = list(zip(inputs, others)) if net.ids else [(inputs, others)]  # clicks have ids and numbers
    assert all(np.array_equal(data, again) and len(data) == net.batch_size for data, again in pairs)
    assert pairs[-1][0].dtype == label.dtype == np.float32
    assert len(label) == net.samples
