"""A run that goes on with other versions, kernels or threads than its checkpoint's says so."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.checkpoint import numeric_environment
from mxtrain.core.system import kernels, machine, wheels

ZEN = {"openblas": "Zen", "onednn": "AVX2"}
VERSIONS = {"mxtrain": "0.2.0", "mxnet": "1.9.1", "numpy": "1.26.4"}


def run_of(*flags: str) -> config.Run:
    return config.parse(["--train", "t.rec", *flags])


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of eight cores."""
    monkeypatch.setattr(kernels, "used", lambda: ZEN)
    monkeypatch.setattr(wheels, "versions", lambda: VERSIONS)
    monkeypatch.setattr(machine, "usable_cores", lambda: 8)
    monkeypatch.setattr(machine, "thread_variable", lambda *environ: None)


def lines(flags: str = "", local_workers: int = 1, begun_on: str = "cpu", **saved: Any) -> list[str]:
    """What is said of a checkpoint that was saved here, but with `saved`."""
    begun = run_of("--devices", begun_on)
    state = {**numeric_environment.here(begun, 1), "config": config.to_flat(begun), **saved}
    return list(numeric_environment.differences(state, run_of(*flags.split()), local_workers))


def test_the_same_is_not_worth_a_line() -> None:
    assert lines() == lines("--threads 8") == lines("--devices cpu:0,1") == []


@pytest.mark.parametrize("missing", ["versions", "kernels", "threads"])
def test_older_checkpoints_are_compared_by_what_they_have(missing: str) -> None:
    state = {**numeric_environment.here(run_of(), 1), "config": config.to_flat(run_of())}
    del state[missing]
    assert list(numeric_environment.differences(state, run_of())) == []


@pytest.mark.parametrize(
    ("flags", "local_workers", "now"), [("--threads 2", 1, "2"), ("", 4, "2"), ("", 3, "2")]
)
def test_other_threads_are_told_with_the_way_back(flags: str, local_workers: int, now: str) -> None:
    """Also where the number of workers on this machine has changed, and with it each one's share of the cores."""
    assert lines(flags, local_workers) == [
        f"was computed with 8 OpenMP threads, here it is {now} OpenMP threads: the curve goes on, to other last bits; "
        "--threads 8 keeps them"
    ]
    assert lines("--threads 8", local_workers) == []


def test_other_versions_are_told_by_name() -> None:
    (line,) = lines(versions={"mxtrain": "0.2.0", "mxnet": "1.9.1", "numpy": "1.23.5", "gone": "1"})
    assert line.startswith(
        "was computed by numpy 1.23.5, this is numpy 1.26.4, which may compute in another way: "
    )
    (line,) = lines(versions={"mxtrain": "0.1.0", "numpy": "1.23.5"})
    assert "by mxtrain 0.1.0, numpy 1.23.5, this is mxtrain 0.2.0, numpy 1.26.4, " in line


def test_what_a_gpu_does_not_use_is_not_told_of() -> None:
    (line,) = lines("--devices gpu:0 --threads 2", begun_on="cpu")
    assert line == "was computed on CPUs, here it is on GPUs: the curve goes on, to other last bits"
    assert (
        lines("--devices gpu:0,1 --threads 2", begun_on="gpu", kernels={"openblas": "Z80", "onednn": "AVX"})
        == []
    )
