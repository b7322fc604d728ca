"""Runs that are ill on purpose, each of which shows its finding, and healthy ones, which show none.

Thresholds are tested from both sides, on made-up records, in tests/unit/report/test_diagnosis.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from examples.digits import write_digits
from mxtrain.report import history
from mxtrain.report.diagnosis import diagnose
from tests.support.commands import ROOT, Command
from tests.support.data import ill_data

# One more case of what the cases without it hold; and where times are judged, with nothing else running.
SLOW, ALONE = pytest.mark.slow, [pytest.mark.slow, pytest.mark.alone]
DIVERGED = 4
NETS = "tests.support.nets.ill_nets"
SLOW_DATA = "--task arrays --train tests.support.data.ill_data:{} --val {{data}}/digits_val.npz"
TWO = "--kvstore dist_sync --num-workers 2 --start-timeout 40 --threads 1"


def of(name: str, train: str = "") -> str:
    return f"--task arrays --train {{data}}/{train or name}.npz --val {{data}}/{name}_val.npz"


class Ill(NamedTuple):
    """A run, all that is found in it, and why there is more than one finding."""

    flags: str
    found: tuple[str, ...]
    why: str = ""
    code: int = 0


ILL = {
    "64_samples": Ill(
        f"{of('few')} --model mlp:hidden=256 --optimizer adam --lr 0.003 --epochs 15 --batch-size 16",
        ("overfitting",),
    ),
    "linear": Ill(f"{of('corners')} --model {NETS}:linear --optimizer adam --lr 0.01 --epochs 10", ("underfitting",)),
    "rate_100_times": Ill(
        f"{of('digits')} --optimizer adam --lr 1 --epochs 10",
        ("dead-activations", "learning-rate-too-high"),
        "its first steps have pushed all ReLUs below zero",
    ),
    "rate_a_thousandth": Ill(f"{of('digits')} --optimizer adam --lr 3e-6 --epochs 10", ("learning-rate-too-low",)),
    "rate_a_thousandth_sgd": Ill(
        f"{of('digits')} --optimizer sgd --lr 5e-5 --epochs 10", ("learning-rate-too-low",)
    ),
    "numbers_overflow": Ill(
        f"{of('numbers')} --optimizer sgd --lr 3 --epochs 10", ("diverging",), code=DIVERGED
    ),
    "ten_sigmoids": Ill(
        f"{of('digits')} --model {NETS}:deep_sigmoid --init xavier --optimizer sgd --lr 0.05 --epochs 8",
        ("vanishing-gradients",),
    ),
    "large_weights": Ill(
        f"{of('digits')} --model {NETS}:deep_relu --init normal:sigma=1 --optimizer sgd --lr 0.05 --epochs 8",
        ("exploding-gradients",),
        code=DIVERGED,
    ),
    "large_biases": Ill(
        f"{of('digits')} --model {NETS}:dying --optimizer sgd --lr 0.05 --epochs 8", ("dead-activations",)
    ),
    "rare_classes": Ill(f"{of('rare')} --optimizer sgd --lr 0.003 --epochs 8", ("class-imbalance",)),
    "exchanged_labels": Ill(f"{of('exchanged')} --optimizer adam --lr 0.003 --epochs 8", ("label-noise",)),
    "out_of_reach": Ill(
        f"{of('products')} --model {NETS}:linear --init normal:sigma=0.03 --optimizer sgd --lr 0.01 --epochs 8",
        ("nothing-learnt",),
    ),
    "unseen": Ill("--task arrays --train {data}/digits.npz --optimizer adam --lr 0.003 --epochs 8", ("no-validation",)),
    "slow_data": Ill(
        f"{SLOW_DATA.format('slow')} --optimizer adam --lr 0.003 --epochs 3 --loader-workers 1", ("data-bound",)
    ),
    "evaluations": Ill(
        f"{of('digits')} --optimizer adam --lr 0.003 --epochs 5 --evaluate-steps 1",
        ("evaluation-time",),
    ),
    "checkpoints": Ill(
        f"{of('digits')} --optimizer adam --lr 0.003 --batch-size 8 --epochs 4 --checkpoint-steps 1",
        ("checkpoint-time",),
    ),
    "small_batches": Ill(
        f"{of('digits')} --model mlp:hidden=2048/1024 --batch-size 2 --optimizer sgd --momentum 0 --lr 0.01 "
        f"--max-steps 150 --epochs 1 {TWO.replace('2', '3')}",
        ("comm-bound",),
    ),
    "one_slow_disk": Ill(
        f"{SLOW_DATA.format('slow_in_one_process')} --optimizer adam --lr 0.003 --epochs 6 --loader-workers 1 "
        f"--sample-steps 10 {TWO}",
        ("straggler",),
    ),
    "one_busy_core": Ill(
        f"{SLOW_DATA.format('fast_but_short_of_cpu')} --model mlp:hidden=1024/1024 --optimizer adam --lr 0.001 "
        f"--epochs 6 --sample-steps 10 {TWO}",
        ("straggler",),
    ),
}  # fmt: skip
ILL_IN_CI = ("64_samples",)
TIMED = ("slow_data", "evaluations", "checkpoints", "small_batches", "one_slow_disk", "one_busy_core")

# What a busy machine makes of any run: only where nothing runs beside it can a test tell.
OF_THE_CLOCK = ("data-bound", "comm-bound", "straggler", "evaluation-time", "checkpoint-time")

HEALTHY = {
    "classes": f"{of('digits')} --optimizer adam --lr 0.003 --epochs 10",
    "classes_sgd": f"{of('digits')} --optimizer sgd --lr 0.05 --epochs 10",
    "short": f"{of('digits')} --optimizer adam --lr 0.003 --epochs 1",
    "numbers": f"{of('numbers')} --optimizer adam --lr 0.01 --epochs 20",
    "corners": f"{of('corners')} --optimizer adam --lr 0.01 --epochs 20",
    "words": "--task lm --train {data}/words.rec --val {data}/words_val.rec --model gpt:layers=2,heads=2,width=32 "
    "--window 32 --batch-size 16 --optimizer adamw --lr 0.01 --epochs 5",
    "pictures": "--train {digits}/train.rec --val {digits}/val.rec --model small_cnn --image-size 8 --val-resize 8 "
    "--augment none --optimizer sgd --lr 0.05 --epochs 8",
    "demo": f"--config {ROOT}/examples/digits.yaml --train {{digits}}/train.rec --val {{digits}}/val.rec",
    "two_workers": "--train {digits}/train.rec --val {digits}/val.rec --model small_cnn --image-size 16 "
    f"--val-resize 16 --augment none --optimizer sgd --lr 0.05 --epochs 4 {TWO}",
}
HEALTHY_IN_CI = ("short",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    ill_data.write(folder)
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "images")
    done = command("tools.im2rec_wrapper", "pack", folder / "images", folder, "--split", 0.8)
    assert done.returncode == 0, done.stderr
    return folder


def found_in(command: Command, out: Path, code: int, flags: str) -> dict[str, str]:
    """Train a run and return what is found in it, by name; its last lines have the most serious, if it ended well."""
    done = command("mxtrain.fit", *flags.split(), "--log", "none", "--out", out)
    assert done.returncode == code, done.stderr
    findings = diagnose(history.read(out))
    is_told = not code and findings and findings[0].name != "no-validation"
    if is_told and "--num-workers" not in flags:  # the supervisor of several workers shows theirs on stdout
        assert f"{findings[0].name}: {findings[0].evidence[0].rstrip('.')}; what to change" in done.stderr
        assert f"python -m mxtrain.report {out} --text" in done.stderr
    assert is_told or "what to change" not in done.stderr
    return {finding.name: f"{finding.title}. {' '.join(finding.evidence)}" for finding in findings}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ILL_IN_CI else ALONE if name in TIMED else SLOW) for name in ILL],
)
def test_an_ill_run_shows_what_it_is_ill_of(name: str, command: Command, data: Path, tmp_path: Path) -> None:
    ill = ILL[name]
    assert len(ill.found) == 1 or ill.why
    found = found_in(command, tmp_path / "run", ill.code, ill.flags.format(data=data))
    assert tuple(found if name in TIMED else without_the_clock(found)) == ill.found, found


def without_the_clock(found: dict[str, str]) -> list[str]:
    return [name for name in found if name not in OF_THE_CLOCK]


def marks_of_healthy(name: str) -> object:
    return () if name in HEALTHY_IN_CI else ALONE if TWO in HEALTHY[name] else SLOW


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of_healthy(name)) for name in HEALTHY])
def test_a_healthy_run_shows_nothing(
    name: str, command: Command, data: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folders = {"data": data}
    if "{digits}" in HEALTHY[name]:
        folders["digits"] = request.getfixturevalue("digits")
    found = found_in(command, tmp_path / "run", 0, HEALTHY[name].format(**folders))
    assert not (found if TWO in HEALTHY[name] else without_the_clock(found)), found


@pytest.mark.slow  # test_an_ill_run_shows_what_it_is_ill_of has the finding, on samples exchanged at random
def test_suspects_are_the_samples_whose_labels_were_exchanged(
    command: Command, data: Path, tmp_path: Path
) -> None:
    import numpy as np

    found = found_in(command, tmp_path / "run", 0, ILL["exchanged_labels"].flags.format(data=data))
    named = [int(each) for each in re.findall(r"(\d+) \(label", found["label-noise"])]
    right, given = (np.load(data / f"{name}_val.npz")["label"] for name in ("digits", "exchanged"))
    assert len(named) == 8 and sum(right[named] != given[named]) >= 7
