"""A net that is held segment by segment trains to the bits of one that is here as a whole."""

from __future__ import annotations

import pytest

from tests.support.nets.held_steps import assert_same, gpt_job, net_job, trained

HELD, WHOLE = " --hold layers", " --remat"  # which draws random numbers as `--hold` does


@pytest.mark.parametrize(
    "flags",
    [
        "--micro-batch 2 --optimizer adam --clip-norm 0.5",
        "--micro-batch 8 --optimizer sgd",
        "--micro-batch 4 --optimizer adamw --clip-value 0.001 --freeze tokens.weight,layers.0.*",
        "--micro-batch 2 --optimizer lamb --layer-decay 0.7",
    ],
)
def test_gpt(flags: str) -> None:
    assert_same(trained(gpt_job(flags + HELD), 3), trained(gpt_job(flags + WHOLE), 3))


def test_without_dropout_the_net_need_not_be_cut() -> None:
    flags = "--micro-batch 4 --optimizer adam"
    assert_same(trained(gpt_job(flags + HELD, dropout=0), 3), trained(gpt_job(flags, dropout=0), 3))


@pytest.mark.parametrize(
    "flags",
    ["--micro-batch 4", "--micro-batch 16", "--micro-batch 2", "--micro-batch 4 --freeze 0.*,1.*,3.*"],
)
def test_running_statistics(flags: str) -> None:
    """Also in limbs, as those of eight micro-batches are summed, and of layers that do not train."""
    assert_same(trained(net_job(flags + HELD), 3), trained(net_job(flags + WHOLE), 3))


def test_a_step_is_dropped() -> None:
    """One of a scale that is too large, after which the loss is scaled by less."""
    flags = "--micro-batch 4 --optimizer adam"
    for job_of in (gpt_job, net_job):
        held, whole = (trained(job_of(flags + way), 4, scale=1024, bad_step=1) for way in (HELD, WHOLE))
        assert [each.applied for each in held.results] == [True, False, True, True]
        assert_same(held, whole)
    first = trained(gpt_job(flags + HELD), 2, bad_step=0)
    assert [each.applied for each in first.results] == [False, True]
    assert_same(first, trained(gpt_job(flags + WHOLE), 2, bad_step=0))
