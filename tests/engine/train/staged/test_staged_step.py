"""A net whose layers lie on several devices trains to the bits of one that lies on one."""

from __future__ import annotations

from typing import Callable

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.models.stages import StagedNet
from mxtrain.train.held import choice
from mxtrain.train.job import TrainingJob
from tests.support.amp import BF16, needs_bf16
from tests.support.nets import training_steps
from tests.support.nets.held_steps import DROPPING_NET, assert_same, gpt_job, net_job, trained

TWO, THREE = " --stages 2 --devices cpu:0,1", " --stages 3 --devices cpu:0,1,2"


@pytest.mark.parametrize(
    ("flags", "stages"),
    [
        pytest.param("--micro-batch 2 --optimizer adam --clip-norm 0.5", TWO, marks=pytest.mark.slow),
        ("--micro-batch 2 --optimizer lamb --layer-decay 0.7 --ema 0.9", THREE),
        ("--micro-batch 4 --optimizer adamw --clip-value 0.001 --freeze tokens.weight,layers.0.*", TWO),
        pytest.param("--micro-batch 8 --optimizer sgd", TWO, marks=pytest.mark.slow),
        pytest.param("--micro-batch 1 --optimizer nadam --sums fast", THREE, marks=pytest.mark.slow),
    ],
)
def test_gpt(flags: str, stages: str) -> None:
    """Also where it draws random numbers: all CPUs draw from one stream."""
    assert_same(trained(gpt_job(flags + stages), 3), trained(gpt_job(flags), 3))


def test_gpt_without_dropout() -> None:
    flags = "--micro-batch 4 --optimizer adam"
    assert_same(trained(gpt_job(flags + THREE, dropout=0), 3), trained(gpt_job(flags, dropout=0), 3))


@needs_bf16
def test_in_bfloat16() -> None:
    flags = f"--micro-batch 4 --optimizer adam {BF16}"
    assert_same(trained(gpt_job(flags + TWO), 3), trained(gpt_job(flags), 3))


@pytest.mark.parametrize(
    ("flags", "net"),
    [
        pytest.param("--micro-batch 2", training_steps.QUICK_RESNET, marks=pytest.mark.slow),
        ("--micro-batch 4 --freeze 0.*,1.*,3.*", training_steps.QUICK_RESNET),
        ("--micro-batch 4", DROPPING_NET),
        pytest.param("--micro-batch 16", training_steps.QUICK_RESNET, marks=pytest.mark.slow),
    ],
)
def test_running_statistics(flags: str, net: str) -> None:
    """Also in limbs, as those of eight micro-batches are summed, and of layers that do not train."""
    assert_same(trained(net_job(flags + THREE, net), 3), trained(net_job(flags, net), 3))


@pytest.mark.parametrize(
    ("job_of", "bad_step"),
    [(net_job, 1), *(pytest.param(gpt_job, each, marks=pytest.mark.slow) for each in (0, 1))],
)
def test_a_step_is_dropped(job_of: Callable[[str], TrainingJob], bad_step: int) -> None:
    """One of a scale that is too large; also the first, from which no exponents follow."""
    flags = "--micro-batch 4 --optimizer adam"
    staged, whole = (trained(job_of(flags + way), 3, scale=1024, bad_step=bad_step) for way in (TWO, ""))
    assert [each.applied for each in staged.results] == [step != bad_step for step in range(3)]
    assert_same(staged, whole)


def test_a_parameter_lies_on_one_device_and_each_device_has_some() -> None:
    context = choice.context_of(gpt_job("--micro-batch 2 --optimizer adam" + THREE))
    net = context.net
    assert isinstance(net, StagedNet)
    devices = [each.list_ctx() for each in net.collect_params().values()]
    assert all(len(each) == 1 for each in devices)
    assert {each.device_id for (each,) in devices} == {0, 1, 2}
    assert [each.device_id for each in net.devices] == sorted(each.device_id for each in net.devices)


@pytest.mark.slow
def test_parts_that_begin_with_norms_have_the_same_bits_wherever_they_lie() -> None:
    flags, net = "--micro-batch 4", "cifar_resnet20_v2"
    two, three, whole = (trained(net_job(flags + way, net), 2) for way in (TWO, THREE, ""))
    assert_same(two, three)
    assert two.results[0].loss == pytest.approx(whole.results[0].loss, rel=1e-4)


def test_more_stages_than_parts_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--stages 8: the net has \d parts that follow each other"):
        choice.context_of(net_job("--stages 8 --devices cpu:0,1,2,3,4,5,6,7", "small_cnn"))
