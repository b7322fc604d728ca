"""A run goes on from a checkpoint of the other way to hold its net, to the bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Callable

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.core.errors import DataError
from mxtrain.runtime import mx
from mxtrain.train import state
from mxtrain.train.context import TrainContext
from mxtrain.train.held import choice
from mxtrain.train.job import TrainingJob
from tests.support.breadth import slow_cases
from tests.support.nets.held_steps import arrays, gpt_job, net_job, steps
from tests.support.nets.training_steps import assert_equal

HELD, WHOLE = " --hold layers", " --remat"
FLAGS = "--micro-batch 4 --optimizer mxnet.optimizer:Nadam"  # which also counts in an attribute of its own


def save(context: TrainContext, folder: Path, num_steps: int) -> directory.Checkpoint:
    *_, last = steps(context, num_steps)
    directory.write(folder, state.snapshot(context, state.TrainState(num_steps, last.scale)))
    found = directory.newest(folder)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("job_of", "ways"),
    [
        (gpt_job, (HELD, WHOLE)),
        *slow_cases((net_job, (WHOLE, HELD)), (net_job, (HELD, WHOLE)), (gpt_job, (HELD, HELD))),
    ],
)
def test_resume(job_of: Callable[[str], TrainingJob], ways: tuple[str, str], tmp_path: Path) -> None:
    first, second = (job_of(FLAGS + way) for way in ways)
    context = choice.context_of(first)
    checkpoint = save(context, tmp_path, 2)
    again = choice.context_of(dataclasses.replace(second, checkpoint=checkpoint))
    assert state.restore(again, checkpoint).step == 2
    assert [each.loss for each in steps(again, 2, first=2)] == [
        each.loss for each in steps(context, 2, first=2)
    ]
    *found, counts = arrays(again)
    *expected, expected_counts = arrays(context)
    assert counts == expected_counts
    for one, other in zip(found, expected):
        assert_equal(one, other)


def test_another_net_s_weights_are_refused(tmp_path: Path) -> None:
    checkpoint = save(choice.context_of(gpt_job(FLAGS + WHOLE)), tmp_path, 1)
    other = choice.context_of(dataclasses.replace(net_job(FLAGS + HELD), checkpoint=checkpoint))
    with pytest.raises(DataError, match="does not fit this net: parameter"):
        state.restore(other, checkpoint)


def test_evaluation_computes_as_the_whole_net() -> None:
    for job_of, data in (
        (gpt_job, np.arange(16)[np.newaxis]),
        (net_job, np.random.default_rng(0).standard_normal((2, 3, 16, 16))),
    ):
        held, whole = (choice.context_of(job_of(FLAGS + way)) for way in (HELD, WHOLE))
        for context in (held, whole):
            list(steps(context, 1))
        answers = [context.net(mx.nd.array(data)).asnumpy() for context in (held, whole)]
        np.testing.assert_array_equal(*answers)
