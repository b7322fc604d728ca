"""A snapshot does not change after it was taken, and its files are MXNet's own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.core.params_file import TYPE_NUMBERS, encoded
from mxtrain.optim.average import WeightAverage
from mxtrain.optim.average_plan import AveragePlan
from mxtrain.runtime import mx
from mxtrain.train import state
from tests.support.nets.training_steps import CLASSES, advance, context_of_run, run_of


def test_params_files_have_the_bytes_that_mxnet_writes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"{name}.größe": (9 * rng.standard_normal((2, 3, 4))).astype(name) for name in TYPE_NUMBERS}
    arrays["one"], arrays["turned"] = np.ones(1, np.float32), np.arange(6, dtype=np.float32).reshape(2, 3).T
    mx.nd.save(str(tmp_path / "theirs"), {k: mx.nd.array(v, dtype=v.dtype) for k, v in arrays.items()})
    ours = b"".join(encoded(arrays))
    assert ours == (tmp_path / "theirs").read_bytes()


def test_no_arrays_make_a_valid_file(tmp_path: Path) -> None:
    """As of plain SGD, which has no state; MXNet reads it and cannot write it."""
    (tmp_path / "empty").write_bytes(b"".join(encoded({})))
    assert len(mx.nd.load(str(tmp_path / "empty"))) == 0


def frozen(taken: directory.Snapshot) -> dict[str, dict[str, Any]]:
    return {
        file: {name: array.copy() for name, array in named.items()} for file, named in taken.files.items()
    }


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_later_steps_do_not_change_a_snapshot(tmp_path: Path, optimizer: str) -> None:
    """The writer reads it while the next steps run."""
    run = run_of(tmp_path, "--optimizer", optimizer, "--devices", "cpu:0,1", "--ema", "0.9")
    context = context_of_run(run, CLASSES)
    average = WeightAverage(context.net, AveragePlan((2, 4, 6)))
    context = dataclasses.replace(context, companions={**context.companions, state.AVERAGE: average})
    progress, _ = advance(context, state.restore(context, None), 2)
    average.after_step(2)
    taken = state.snapshot(context, progress)
    before, values_before = frozen(taken), json.dumps(taken.state)
    advance(context, progress, 2)
    average.after_step(4)
    later = state.snapshot(context, progress)
    assert json.dumps(taken.state) == values_before != json.dumps(later.state)
    files = {state.WEIGHTS, state.OPTIMIZER, state.AVERAGES, state.AVERAGE, state.GRID}
    assert set(taken.files) == files
    for file, named in before.items():
        assert named
        for name, array in named.items():
            np.testing.assert_array_equal(taken.files[file][name], array, err_msg=f"{file} {name}")
        has_moved = any((named[name] != later.files[file][name]).any() for name in named)
        assert has_moved or file == state.GRID, "the steps moved it"
