"""A head in chunks that owners lend trains to the bits of one whose chunks are the worker's own."""

from __future__ import annotations

import pytest

from mxtrain.runtime import mx
from mxtrain.train.held import choice
from tests.support.nets.held_steps import DROPPING_NET, assert_same, net_job, steps, trained
from tests.support.nets.training_steps import batches

HELD, OWN = " --hold layers", " --remat"  # which draws random numbers as `--hold` does
CHUNK = "--head-chunk 3 --optimizer adam --clip-norm 0.5"


@pytest.mark.parametrize(
    ("flags", "net"),
    [
        pytest.param("--micro-batch 4", "", marks=pytest.mark.slow),
        pytest.param("--micro-batch 16", "", marks=pytest.mark.slow),
        ("--micro-batch 4 --loss arcface:scale=8,margin=0.3 --class-weights 1,2,0.5,3", DROPPING_NET),
        pytest.param("--micro-batch 4 --freeze *.0.weight", "", marks=pytest.mark.slow),
        ("--micro-batch 4 --head-classes 2", ""),
        pytest.param(
            "--micro-batch 16 --head-classes 3 --loss cosface:scale=8,margin=0.2", "", marks=pytest.mark.slow
        ),
    ],
)
def test_chunks_with_their_owners(flags: str, net: str) -> None:
    """Of two chunks, of 3 classes and of one; a net whose last segment draws random numbers too."""
    held, own = (net_job(f"{CHUNK} {flags}{way}", *([net] if net else [])) for way in (HELD, OWN))
    assert_same(trained(held, 3), trained(own, 3))


def test_a_step_that_is_not_finite_is_dropped() -> None:
    held, own = (net_job(f"{CHUNK} --micro-batch 4{way}") for way in (HELD, OWN))
    assert_same(trained(held, 3, bad_step=1), trained(own, 3, bad_step=1))


def test_an_evaluation_pulls_the_chunks() -> None:
    contexts = [choice.context_of(net_job(f"{CHUNK} --micro-batch 4{way}")) for way in (HELD, OWN)]
    for context in contexts:
        list(steps(context, 2))
    (batch,) = batches(16, 16, seed=5)
    arrays = {name: mx.nd.array(array) for name, array in batch.arrays.items()}
    held, own = (context.plain_forward(context.net, arrays) for context in contexts)
    assert (held.losses == own.losses).min().asscalar() and (held.output == own.output).min().asscalar()
