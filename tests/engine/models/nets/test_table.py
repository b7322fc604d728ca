"""A lookup in a table, and its gradients, are those of a dense matrix of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.config import Layout, Model, Optim, Run
from mxtrain.config.checks import table_checks
from mxtrain.core.errors import DataError, UsageError
from mxtrain.models import Table
from mxtrain.models.nets.table import MEAN, SUM, tables_of
from mxtrain.runtime import mx

IDS = np.array([[5, 1 << 60, 5], [-3, 5, 7], [7, 7, 7], [9, 9, -3]])
KNOWN = np.unique(IDS)
LENGTHS = np.array([3, 1, 0, 2])
AS_MANY_AS_LISTS = np.array([3, 1, 0, 0])


def looked_up(table: Table, pooling: str, lengths: Any) -> Any:
    ids = mx.nd.array(IDS, dtype="int64")
    return table.pooled(ids, mx.nd.array(lengths), pooling) if pooling else table(ids)


def dense(pooling: str, lengths: Any) -> tuple[Any, Any]:
    """What a matrix with the table's first rows answers, and the gradient of its rows, for the loss below."""
    rows = mx.nd.array(Table("t", 4, scale=0.7).rows(KNOWN))
    rows.attach_grad()
    places = np.searchsorted(KNOWN, IDS)
    with mx.autograd.record():
        answer = mx.nd.take(rows, mx.nd.array(places, dtype="int32"))
        if pooling:
            counts = (np.arange(3) < lengths[:, None]).astype(np.float32)
            weights = counts / np.maximum(lengths[:, None], 1) if pooling == MEAN else counts
            answer = (answer * mx.nd.array(weights[:, :, None])).sum(axis=1)
        (answer**3).backward()
    return answer.asnumpy(), rows.grad.asnumpy()


@pytest.mark.parametrize("lengths", [LENGTHS, AS_MANY_AS_LISTS, np.ones(4, int)], ids=str)
@pytest.mark.parametrize("pooling", ["", SUM, MEAN])
def test_answers_and_gradients_are_those_of_a_matrix(pooling: str, lengths: Any) -> None:
    table = Table("t", 4, scale=0.7)
    with mx.autograd.record():
        answer = looked_up(table, pooling, lengths)
        loss = answer**3
    loss.backward()
    expected, gradient = dense(pooling, lengths)
    np.testing.assert_allclose(answer.asnumpy(), expected, rtol=1e-6)
    (use,) = table.take_uses(mx.cpu())
    found = np.zeros_like(gradient)
    found[np.searchsorted(KNOWN, use.ids)] = use.gradients()
    np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-6)
    assert not table.take_uses(mx.cpu())


def test_nothing_is_noted_outside_of_training() -> None:
    table = Table("t", 4)
    assert table(mx.nd.array(IDS, dtype="int64")).shape == (4, 3, 4)
    assert not table.uses


@pytest.mark.parametrize("wrong", [2.5, float("nan"), float(1 << 24)])
def test_ids_that_float32_may_not_tell_are_refused(wrong: float) -> None:
    table = Table("t", 4)
    assert np.array_equal(
        table(mx.nd.array([3.0])).asnumpy(), table(mx.nd.array([3], dtype="int64")).asnumpy()
    )
    with pytest.raises(DataError, match=r"table t: ids of float32 .*give int64"):
        table(mx.nd.array([1, wrong]))


def test_wrong_tables_are_refused_in_a_line() -> None:
    with pytest.raises(UsageError, match=r"table t: .*rate.*; a table has name, width"):
        Table("t", 4, rate=0.1)
    with pytest.raises(UsageError, match="table t: pooled by max; by sum or mean"):
        Table("t", 4).pooled(mx.nd.array(IDS, dtype="int64"), mx.nd.array(LENGTHS), "max")
    net = mx.gluon.nn.Sequential()
    net.add(Table("t", 4), Table("t", 4))
    with pytest.raises(UsageError, match="two tables of the net are called t"):
        tables_of(net)
    shared = mx.gluon.nn.Sequential()
    shared.add(net[0], net[0])
    assert tables_of(shared) == [net[0]]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            Run(layout=Layout(kvstore="dist_sync")),
            "--kvstore dist_sync with a net with tables .t.: .*--update servers",
        ),
        (Run(layout=Layout(kvstore="allreduce")), "--kvstore allreduce with a net with tables"),
        (Run(layout=Layout(kvstore="dist_async")), "--kvstore dist_async with a net with tables"),
        (Run(optim=Optim(ema=0.9)), "--ema 0.9 with a net with tables .t.: rows have no averages"),
        (Run(optim=Optim(average="1:1")), "--average 1:1 with a net with tables"),
        (Run(model=Model(prune=0.5)), "--prune 0.5 with a net with tables"),
    ],
)
def test_flags_that_do_not_go_with_tables(run: Run, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        table_checks.check(run, ["t"])
    table_checks.check(Run(layout=Layout(kvstore="dist_sync", update="servers")), ["t"])
