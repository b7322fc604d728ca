"""Parsing --optimizer together with --momentum."""

from __future__ import annotations

import pytest

from mxtrain import config
from mxtrain.config.components import optimizers
from mxtrain.config.components.optimizers import LEFT_OUT, OPTIMIZERS
from mxtrain.core.errors import UsageError


def resolved(*arguments: str) -> dict[str, float]:
    run = config.parse(["--optimizer", *arguments])
    return optimizers.parse(run.optim, "momentum" in run.explicit).hyperparameters


def test_numbers_and_momentum_meet() -> None:
    assert resolved("sgd") == {"momentum": 0.9}
    assert resolved("sgd", "--momentum", "0.5") == {"momentum": 0.5}
    assert resolved("sgd:momentum=0.5") == {"momentum": 0.5}
    assert resolved("sgd:momentum=0.5", "--momentum", "0.5") == {"momentum": 0.5}
    assert resolved("adamw:beta2=0.95,epsilon=1e-6") == {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-6}
    assert resolved("adamw:beta2=0.95", "--momentum", "0.8")["beta1"] == 0.8
    assert resolved("rmsprop:centered=1", "--momentum", "0.8")["gamma2"] == 0.8
    assert resolved("ftml")["beta1"] == 0.6


def test_momentum_has_a_number_of_that_name_to_go_to() -> None:
    assert all(each.momentum in each.numbers for each in OPTIMIZERS.values() if each.momentum)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["adamv"], "--optimizer adamv: unknown name; did you mean .*'adamw'"),
        (["adamw:beta3=0.9"], "--optimizer adamw: no number 'beta3'; did you mean"),
        (["adamw:beta1=1"], "beta1=1: give 0 to 0.999999"),
        (["adam:epsilon=0"], "epsilon=0: give 1e-16 to 1"),
        (["rmsprop:centered=yes"], "centered=yes: not a whole number"),
        (["rmsprop:gamma2=0.5"], "gamma2 is the centered one's; add centered=1"),
        (["sgd:momentum=0.5", "--momentum", "0.8"], "--momentum 0.8: .* says 0.5; leave one of them out"),
        (
            ["adagrad", "--momentum", "0.8"],
            "--momentum 0.8: --optimizer adagrad has none; leave --momentum out",
        ),
        (["adagrad", "--momentum", "0.9"], "--momentum 0.9: --optimizer adagrad has none"),
        (["sgd:momentum=0.5", "--momentum", "0.9"], "--momentum 0.9: .* says 0.5; leave one of them out"),
        (["rmsprop", "--momentum", "0.8"], "--momentum 0.8: --optimizer rmsprop has none"),
        (["ftml", "--momentum", "0.8"], "--momentum 0.8: --optimizer ftml has none"),
        *(([name], f"--optimizer {name}: left out, because .*; give ") for name in LEFT_OUT),
    ],
)
def test_an_optimizer_that_does_not_fit_is_refused_in_one_line(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        resolved(*arguments)
    assert "\n" not in str(refused.value)
