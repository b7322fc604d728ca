"""Exact sums move every layer that sums in float32 move, however small its gradients beside the net's largest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.core.errors import UsageError
from mxtrain.runtime import mx
from mxtrain.train import state
from tests.support.training_steps import (
    CLASSES,
    FLAGS,
    advance,
    arrays,
    assert_equal,
    build_parts,
    parts_of,
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
    parts = parts_of(f"{FLAGS} --model {NET} --weight-decay 0 {flags}")
    train(parts, 1)  # shapes are known from here on
    before = arrays(parts)
    train(parts, num_steps)
    return {name: float(np.abs(array - before[name]).mean()) for name, array in arrays(parts).items()}


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


def test_a_run_goes_on_by_the_rule_that_it_began_with(tmp_path: Path) -> None:
    """Checkpoints of versions that knew one rule do not name it; a later one's is refused."""
    run = run_of(tmp_path, "--model", NET, "--weight-decay", "0", "--optimizer", "lars")
    parts = build_parts(run, CLASSES)
    assert parts.grid is not None and parts.grid.rule == 2
    parts.grid.rule = 1
    progress, _ = advance(parts, state.restore(run, parts, None), 2)
    saved = directory.newest(save(run, parts, progress).parent)
    assert saved is not None and saved.state["units_rule"] == 1
    advance(parts, progress, 3)

    again = build_parts(run, CLASSES)
    del saved.state["units_rule"]
    advance(again, state.restore(run, again, saved), 3)
    assert again.grid is not None and again.grid.rule == 1
    assert_equal(arrays(again), arrays(parts))

    saved.state["units_rule"] = 3
    with pytest.raises(UsageError, match=r"added by rule 3, .*--resume never"):
        state.restore(run, again, saved)
