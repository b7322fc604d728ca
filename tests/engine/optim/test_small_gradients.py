"""Exact sums move every layer that sums in float32 move, however small its gradients beside the net's largest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.core.errors import UsageError
from mxtrain.optim import precision
from mxtrain.optim.sums import grid_units
from mxtrain.runtime import mx
from mxtrain.train import state
from mxtrain.train.step import train_step
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    advance,
    arrays,
    assert_equal,
    batches,
    context_of,
    context_of_run,
    run_of,
    save,
    train,
)

NET = f"{__name__}:sigmoids"
DEPTH = 20  # layers, of which each makes gradients some 2**4 times smaller


def sigmoids(num_classes: int) -> Any:
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.GlobalAvgPool2D(), nn.Flatten())
        for _ in range(DEPTH):
            net.add(nn.Dense(16, activation="sigmoid", weight_initializer=mx.init.Uniform(0.2)))
        net.add(nn.Dense(num_classes))
    return net


def moved(flags: str, num_steps: int) -> dict[str, float]:
    """Return how far the weights of each layer have moved after some steps, on average."""
    context = context_of(f"{FLAGS} --model {NET} --weight-decay 0 {flags}")
    train(context, 1)  # shapes are known from here on
    before = arrays(context)
    train(context, num_steps)
    return {name: float(np.abs(array - before[name]).mean()) for name, array in arrays(context).items()}


@pytest.mark.parametrize(
    "optimizer",
    [
        "signum",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("lars", "lamb", "adam:epsilon=1e-16")),
    ],
)
def test_each_layer_moves_as_with_sums_in_float32(optimizer: str) -> None:
    exact = moved(f"--optimizer {optimizer}", 20)
    plain = moved(f"--optimizer {optimizer} --sums fast", 20)
    assert exact.keys() == plain.keys()
    for name, distance in plain.items():
        assert exact[name] == pytest.approx(distance, rel=0.05), name


def certain(num_classes: int) -> Any:
    """A net whose answers are certain, and wrong: the gradients of a class's row are tiny until a sample has it."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Flatten(), nn.Dense(1024, weight_initializer=mx.init.Normal(0.05)))
        net.add(nn.Dense(num_classes, weight_initializer=mx.init.Normal(0.6)))
    return net


def test_each_class_is_learnt_by_a_net_that_is_certain() -> None:
    """Though the first micro-batch has no sample of it, and so no gradient that would show how large the others are."""
    norms = []
    for sums in ("exact", "fast"):
        context = context_of(f"{FLAGS} --model {__name__}:certain --micro-batch 1 --sums {sums}")
        steps = [
            train_step(
                context, batches(16, 1, number), lambda batch: None, number, 1e-6, precision.LossScale()
            )
            for number in range(6)
        ]
        assert all(step.applied for step in steps), sums
        norms.append([step.gradient_norm for step in steps])
    np.testing.assert_allclose(norms[0], norms[1], rtol=1e-3)


@pytest.mark.parametrize("rule", [1, *slow_cases(2)])
def test_a_run_goes_on_by_the_rule_that_it_began_with(tmp_path: Path, rule: int) -> None:
    """Checkpoints of versions that knew one rule do not name it; a later one's is refused."""
    run = run_of(tmp_path, "--model", NET, "--weight-decay", "0", "--optimizer", "lars")
    context = context_of_run(run, CLASSES)
    assert context.grid is not None and context.grid.rule == grid_units.RULE
    context.grid.rule = rule
    progress, _ = advance(context, state.restore(context, None), 2)
    saved = directory.newest(save(run, context, progress).parent)
    assert saved is not None and saved.state["units_rule"] == rule
    advance(context, progress, 3)

    again = context_of_run(run, CLASSES)
    if rule == 1:
        del saved.state["units_rule"]
    advance(again, state.restore(again, saved), 3)
    assert again.grid is not None and again.grid.rule == rule
    assert_equal(arrays(again), arrays(context))

    saved.state["units_rule"] = grid_units.RULE + 1
    with pytest.raises(UsageError, match=r"added by rule 4, .*--resume never"):
        state.restore(again, saved)
