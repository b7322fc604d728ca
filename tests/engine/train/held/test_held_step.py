"""A net that is held segment by segment trains to the bits of one that is here as a whole."""

from __future__ import annotations

import collections
import dataclasses
import math
import weakref
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import Pull
from mxtrain.runtime.types import Net
from mxtrain.tasks.task import Outcome
from mxtrain.train.held import choice, segment_weights
from mxtrain.train.held.held_net import HeldNet
from mxtrain.train.held.trainer import HeldTrainer
from mxtrain.train.job import TrainingJob
from tests.support.amp import BF16, needs_bf16
from tests.support.breadth import slow_cases
from tests.support.nets.held_steps import DROPPING_NET, assert_same, gpt_job, net_job, steps, trained

HELD, WHOLE = " --hold layers", " --remat"  # which draws random numbers as `--hold` does


@pytest.mark.parametrize(
    "flags",
    [
        "--micro-batch 2 --optimizer adam --clip-norm 0.5",
        *slow_cases("--micro-batch 4 --optimizer adamw --clip-value 0.001 --freeze tokens.weight,layers.0.*"),
        pytest.param("--micro-batch 8 --optimizer sgd", marks=pytest.mark.slow),
        pytest.param("--micro-batch 2 --optimizer lamb --layer-decay 0.7", marks=pytest.mark.slow),
    ],
)
def test_gpt(flags: str) -> None:
    assert_same(trained(gpt_job(flags + HELD), 3), trained(gpt_job(flags + WHOLE), 3))


@needs_bf16
def test_in_bfloat16() -> None:
    flags = f"--micro-batch 4 --optimizer adam {BF16}"
    assert_same(trained(gpt_job(flags + HELD), 3), trained(gpt_job(flags + WHOLE), 3))


def test_a_last_segment_that_draws_random_numbers() -> None:
    """It goes on in the stream where the one before it that draws some has ended."""
    flags = "--micro-batch 4"
    net = choice.context_of(net_job(flags + HELD, DROPPING_NET)).net
    assert isinstance(net, HeldNet) and net.is_random[-1] and sum(net.is_random) > 2
    held, whole = (trained(net_job(flags + way, DROPPING_NET), 3) for way in (HELD, WHOLE))
    assert_same(held, whole)


def test_a_task_that_computes_its_net_twice_is_refused() -> None:
    context = choice.context_of(gpt_job("--micro-batch 4" + HELD))
    forward = context.forward

    def twice(net: Net, batch: Mapping[str, Any]) -> Outcome:
        return [forward(net, batch) for _ in range(2)][-1]

    with pytest.raises(UsageError, match="--hold layers: the task computes its net twice"):
        list(steps(dataclasses.replace(context, forward=twice), 1))


def test_without_dropout_the_net_need_not_be_cut() -> None:
    flags = "--micro-batch 4 --optimizer adam"
    assert_same(trained(gpt_job(flags + HELD, dropout=0), 3), trained(gpt_job(flags, dropout=0), 3))


@pytest.mark.parametrize(
    "flags",
    [
        "--micro-batch 4 --freeze 0.*,1.*,3.*",
        *slow_cases("--micro-batch 2", "--micro-batch 4", "--micro-batch 16"),
    ],
)
def test_running_statistics(flags: str) -> None:
    """Also in limbs, as those of eight micro-batches are summed, and of layers that do not train."""
    assert_same(trained(net_job(flags + HELD), 3), trained(net_job(flags + WHOLE), 3))


@pytest.mark.parametrize(
    ("job_of", "bad_step"),
    [(net_job, 1), *(pytest.param(gpt_job, each, marks=pytest.mark.slow) for each in (0, 1))],
)
def test_a_step_is_dropped(job_of: Callable[[str], TrainingJob], bad_step: int) -> None:
    """One of a scale that is too large; also the first, from which no exponents follow."""
    flags = "--micro-batch 4 --optimizer adam"
    held, whole = (trained(job_of(flags + way), 3, scale=1024, bad_step=bad_step) for way in (HELD, WHOLE))
    assert [each.applied for each in held.results] == [step != bad_step for step in range(3)]
    assert_same(held, whole)


@pytest.mark.parametrize("num_micro_batches", [1, 4])
def test_weights_travel_twice_a_step_and_those_of_two_segments_are_here(
    num_micro_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many micro-batches there are. The last segment's travel once, for both of its passes."""
    context = choice.context_of(gpt_job(f"--micro-batch {8 // num_micro_batches}{HELD}", dropout=0))
    net, trainer = context.net, context.trainer
    assert isinstance(net, HeldNet) and isinstance(trainer, HeldTrainer) and len(net.segments) >= 4
    pulls: list[int] = []
    buffers: list[weakref.ref[Array]] = []
    num_bytes: list[int] = []

    def pulled(indices: Sequence[int], into: Sequence[Array]) -> Pull:
        pulls.extend(indices)
        for array in into:
            assert isinstance(array.base, np.ndarray)
            if all(each() is not array.base for each in buffers):
                buffers.append(weakref.ref(array.base))
        alive = [array for array in (each() for each in buffers) if array is not None]
        num_bytes.append(sum(array.nbytes - segment_weights.ALIGNMENT for array in alive))
        return pull(indices, into)

    pull = trainer.owners.pull
    list(steps(context, 1))  # which learns exponents by passes of its own
    monkeypatch.setattr(trainer.owners, "pull", pulled)
    list(steps(context, 1, first=1))
    first, *middle, last = [[each.name for each in segment.lent] for segment in net.segments]
    names = [each.name for each in trainer.parameters]
    twice = dict.fromkeys([*first, *(name for of_segment in middle for name in of_segment)], 2)
    assert collections.Counter(names[index] for index in pulls) == {**twice, **dict.fromkeys(last, 1)}
    sizes = [4 * sum(math.prod(each.shape) for each in segment.lent) for segment in net.segments]
    assert max(num_bytes) == max(map(sum, zip(sizes, sizes[1:])))
