"""The table of --dry-run agrees with what a run does."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.models.parameters import weights
from mxtrain.train.net import dry_run
from tests.support.nets import training_steps
from tests.support.nets.training_steps import CLASSES, SIZE, arrays, context_of, job_of, train

FLAGS = f"--model small_cnn {training_steps.FLAGS}"


def told_of(flags: str) -> tuple[dict[str, list[str]], list[str]]:
    """The rows of the table by parameter, and the two lines under it."""
    line = f"--train t.rec --image-size {SIZE} {FLAGS} {flags}"
    run = config.parse(line.split())
    lines = dry_run.parameter_table(job_of(run, CLASSES)).splitlines()
    return {row.split()[0]: row.split()[1:] for row in lines[1:-2]}, lines[-2:]


@pytest.mark.parametrize("optimizer", ["sgd", "sgd:momentum=0", "adamw", "lamb"])
def test_the_memory_of_the_optimizer_is_what_it_takes(optimizer: str) -> None:
    flags = f"--optimizer {optimizer} --freeze 0.*,1.*"
    context = context_of(f"{FLAGS} {flags}")
    train(context, 1)
    num_bytes = sum(array.nbytes for array in context.trainer.optimizer_state()[0].values())
    assert f"state of {optimizer} {num_bytes / 1e6:.1f} MB" in told_of(flags)[1][1]


def test_the_table_says_what_trains_and_decays() -> None:
    flags = "--freeze 0.*,1.* --weight-decay 0.5 --lr 0.01"
    rows, _ = told_of(flags)
    context = context_of(f"{FLAGS} {flags}")
    named, before = weights.named_parameters(context.net), arrays(context)
    train(context, 1)
    after = arrays(context)
    assert list(rows) == list(named)
    for name, (shape, kind, count, *rest) in rows.items():
        assert shape == "x".join(map(str, named[name].shape)) and kind == "float32"
        assert int(count.replace(",", "")) == after[name].size
        assert ("frozen" not in rest) == (not np.array_equal(before[name], after[name])), name
        assert ("trained" in rest) == (named[name].grad_req != "null")
        assert ("decays" in rest) == (named[name].grad_req != "null" and named[name].wd_mult > 0)
        assert ("decays" in rest) == (name.endswith("weight") and name != "0.weight")


def test_the_table_ends_with_sums() -> None:
    rows, (numbers, memory) = told_of("--devices cpu:0,1 --ema 0.99")
    total = sum(int(row[2].replace(",", "")) for row in rows.values())
    assert numbers.startswith(f"{total:,} numbers in {len(rows)} parameters")
    assert memory.startswith(f"each device (2) holds weights {4 * total / 1e6:.1f} MB")
    assert f"averages {4 * total / 1e6:.1f} MB" in memory


def test_refusals_of_a_cluster_need_no_cluster(caplog: pytest.LogCaptureFixture) -> None:
    line = "--kvstore dist_sync --num-workers 2 --ema 0.9 --model tests.support.nets.table_nets:sparse"
    with pytest.raises(UsageError, match=r"--ema 0\.9 with --kvstore dist_sync with a row-sparse table"):
        told_of(line)
    with caplog.at_level("INFO"):
        assert told_of(line.replace("--ema 0.9", ""))
    assert "not exactly (the row-sparse gradient of " in caplog.text
