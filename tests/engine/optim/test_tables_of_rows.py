"""Flags of parameters and tables alike: --freeze, --lr-scale and --layer-decay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.models import Table
from mxtrain.optim import precision
from mxtrain.tables import row_files, row_format
from mxtrain.train import state
from mxtrain.train.context import TrainContext
from mxtrain.train.net import dry_run
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    SIZE,
    arrays,
    assert_equal,
    context_of_run,
    job_of,
    save,
    train,
)

NET = "tests.support.nets.table_nets:owned"  # its table is called patches, and moves at twice the rate


def context_of(flags: str = "", net: str = NET) -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {net} {FLAGS} {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


def share(context: TrainContext) -> Any:
    """The only table's rows, in this process."""
    assert context.tables is not None
    (found,) = context.tables.owners.shares  # type: ignore[attr-defined]
    return found


def rows(context: TrainContext) -> Any:
    """Its rows, of all ids that it could have."""
    return share(context).rows(np.arange(2048))


def test_rows_of_a_frozen_table_rest_and_weights_move() -> None:
    frozen, moved = context_of("--freeze patches"), context_of()
    first, weights_before = rows(frozen), arrays(frozen)
    losses = train(frozen, 3), train(moved, 3)
    assert losses[0][0] == losses[1][0] and losses[0][1:] != losses[1][1:]
    assert share(frozen).arena.num_rows == 0 < share(moved).arena.num_rows
    assert np.array_equal(rows(frozen), first) and not np.array_equal(rows(moved), first)
    now = arrays(frozen)
    assert not np.array_equal(now["head.1.weight"], weights_before["head.1.weight"])


def test_weights_rest_beside_a_table_that_moves() -> None:
    context = context_of("--freeze head.*.weight,head.4.bias,head.*running*")
    before, first = arrays(context), rows(context)
    train(context, 2)
    assert not np.array_equal(rows(context), first)
    after = arrays(context)
    assert {name for name in before if np.array_equal(before[name], after[name])} == {
        *("head.1.weight", "head.4.weight", "head.4.bias", "head.2.running_mean", "head.2.running_var")
    }


def test_a_frozen_table_forgets_nothing() -> None:
    context = context_of("--freeze patches", f"{__name__}:forgetful")
    arena = share(context).arena
    arena.update(np.arange(3), np.ones((3, 8), np.float32), 1, 0.1)
    train(context, 6)
    assert arena.num_rows == 3


@pytest.mark.parametrize(
    ("flags", "factor", "of_head"),
    [
        ("", 2.0, 1.0),
        ("--lr-scale patches=0.5", 1.0, 1.0),
        ("--lr-scale *=0.1,patches=3", 6.0, 0.1),
        ("--layer-decay 0.5", 0.5, 1.0),
        ("--layer-decay 0.5 --lr-scale patches=4", 2.0, 1.0),
    ],
)
def test_the_rate_of_a_table(flags: str, factor: float, of_head: float) -> None:
    """The layers of the net are the table, and two that are dense."""
    context = context_of(flags)
    (table,) = context.tables.tables  # type: ignore[union-attr]
    assert table.options.rate_factor == 2.0 and share(context).arena.options.rate_factor == factor
    named = {name: each.lr_mult for name, each in context.net.collect_params().items()}
    assert named[max(named)] == of_head


def test_a_rate_that_is_scaled_moves_rows_as_that_of_the_table() -> None:
    scaled, own = context_of("--lr-scale patches=2"), context_of("", f"{__name__}:fast")
    for context in (scaled, own):
        train(context, 3)
    assert np.array_equal(rows(scaled), rows(own))
    assert_equal(arrays(scaled), arrays(own))


@pytest.mark.parametrize(
    ("flags", "row"),
    [
        ("", "patches  ids x 8  float32 grows trained rate 0.2"),
        ("--lr-scale patches=0.5", "patches  ids x 8  float32 grows trained"),
        ("--freeze patches", "patches  ids x 8  float32 grows frozen"),
    ],
)
def test_a_dry_run_lists_tables(flags: str, row: str) -> None:
    line = f"--train t.rec --image-size {SIZE} --model {NET} {FLAGS} --lr 0.1 {flags}"
    lines = dry_run.parameter_table(job_of(config.parse(line.split()), CLASSES)).splitlines()
    assert [each.split() for each in lines if each.startswith("patches")] == [row.split()]


def test_names_of_tables_are_known_to_messages() -> None:
    for flag in ("--freeze patchs", "--lr-scale patchs=0.5"):
        with pytest.raises(UsageError, match="patchs: matches no parameter; did you mean 'patches'"):
            context_of(flag)


@pytest.mark.parametrize(("patterns", "left"), [("*", "nothing"), ("head.*", "tables alone")])
def test_a_table_does_not_train_alone(patterns: str, left: str) -> None:
    with pytest.raises(UsageError, match=f"leaves {left} to train; freeze less"):
        context_of(f"--freeze {patterns}")


def forgetful(num_classes: int) -> Any:
    return _with_table(num_classes, expire_after=2)


def fast(num_classes: int) -> Any:
    return _with_table(num_classes, rate_factor=4.0)


def _with_table(num_classes: int, **options: Any) -> Any:
    from tests.support.nets.table_nets import WIDTH, Patches

    return Patches(Table("patches", WIDTH, scale=0.5, optimizer="adagrad", **options), num_classes)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """The checkpoint of a run of three steps."""
    context = context_of(f"--out {tmp_path}")
    train(context, 3)
    return save(context.run, context, state.TrainState(step=3, scale=precision.LossScale()))


def begun(flags: str, net: str = NET) -> TrainContext:
    context = context_of(flags, net)
    state.restore(context, None)
    return context


def test_a_run_begins_with_the_rows_of_another_that_is_trained(trained: Path) -> None:
    context, other = begun(f"--pretrained {trained} --seed 5"), begun("--seed 5")
    expected = {row["id"]: row["row"].tolist() for each in _pieces(trained) for row in each}
    assert len(expected) == share(context).arena.num_rows > 10
    ids = np.array(sorted(expected))
    assert share(context).rows(ids).tolist() == [expected[each] for each in ids]
    others = np.setdiff1d(np.arange(2048), ids)
    assert np.array_equal(share(context).rows(others), share(other).rows(others))  # by its own seed
    before = rows(context)
    train(context, 2)
    assert not np.array_equal(rows(context), before)


def test_frozen_rows_that_nothing_is_known_of_are_warned_of(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "mxtrain.models.parameters.pretrained")
    begun(f"--freeze patches --pretrained {trained}")
    begun("")
    assert not [each for each in caplog.records if "patches" in each.getMessage()]
    begun("--freeze patches")
    begun(f"--pretrained {trained / 'weights.params'}")
    messages = [each.getMessage() for each in caplog.records if "patches" in each.getMessage()]
    assert "patches keep their random initial values, because no --pretrained is given" in messages[0]
    assert messages[1:] == [
        f"--pretrained {trained / 'weights.params'}: has no rows of patches, which begin anew"
    ]


def test_rows_of_some_tables_only_are_refused(trained: Path) -> None:
    with pytest.raises(
        UsageError, match="has rows of table patches and none of others; give a run with both, or its"
    ):
        begun(f"--pretrained {trained}", f"{__name__}:two")


def _pieces(folder: Path) -> Any:
    ((row_file,),) = row_files.shares_of(folder, "patches")
    return row_format.read(row_file)


def two(num_classes: int) -> Any:
    from tests.support.nets.table_nets import WIDTH, TwoTables

    tables = [Table(name, WIDTH, scale=0.5, optimizer="adagrad") for name in ("patches", "others")]
    return TwoTables(*tables, num_classes)


def test_rows_of_one_process_lie_in_files(tmp_path: Path) -> None:
    in_files, in_memory = context_of(f"--store-dir {tmp_path}"), context_of()
    assert train(in_files, 3) == train(in_memory, 3)
    assert np.array_equal(rows(in_files), rows(in_memory))
    assert str(tmp_path) in Path("/proc/self/maps").read_text()


def test_a_folder_without_rows_for_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--store-dir .*: each worker holds all weights in its memory"):
        context_of(f"--store-dir {tmp_path}", "small_cnn")
