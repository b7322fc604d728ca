"""SparseEmbedding in one process: a dense table's numbers, and no id that is not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain.config import Layout, Model, Optim, Run
from mxtrain.config.checks import store_checks
from mxtrain.core.errors import DataError, UsageError
from mxtrain.kvstore.trainers.trainer import open_trainer
from mxtrain.models import SparseEmbedding
from mxtrain.models.nets import sparse_rows
from mxtrain.optim.sums.gradients import GradientAccumulator
from mxtrain.optim.update import Update
from mxtrain.runtime import mx

IDS = [[0, 3, 3], [7, 1, 3], [9, 9, 2], [4, 0, 5]]


def trained(layer: Any, contexts: list[Any], optimizer: Any, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Return the table after five steps of four micro-batches, of which the last uses only a few rows."""
    layer.initialize(mx.init.Constant(0.5), ctx=contexts)
    trainer = open_trainer([layer.weight], optimizer, "local")
    for step in range(5):
        gradients = GradientAccumulator(trainer.parameters, contexts)
        for number, ids in enumerate(IDS if step < 4 else [[3, 3]]):
            context = contexts[number % len(contexts)]
            gradients.before_backward(context)
            with mx.autograd.record():
                losses = layer(mx.nd.array(ids, ctx=context)) ** 3 * (number + 1) * scale
            losses.backward()
        gradients.write_sums()
        trainer.start_reduce()
        trainer.finish_reduce()
        trainer.apply(Update(optimizer.lr, 1 / 7, 1 / scale))
    for context in contexts[1:]:
        assert (layer.weight.data(context).asnumpy() == layer.weight.data(contexts[0]).asnumpy()).all()
    return layer.weight.data(contexts[0]).asnumpy()


@pytest.mark.parametrize("num_contexts", [1, 2])
def test_plain_sgd_makes_the_weights_of_a_dense_table(num_contexts: int) -> None:
    contexts = [mx.cpu(number) for number in range(num_contexts)]
    sparse = trained(SparseEmbedding(10, 4), contexts, mx.optimizer.SGD(learning_rate=0.1))
    dense = trained(mx.gluon.nn.Embedding(10, 4), contexts, mx.optimizer.SGD(learning_rate=0.1))
    np.testing.assert_allclose(sparse, dense, atol=1e-6)
    assert (sparse[3] != 0.5).all() and (sparse[[6, 8]] == 0.5).all()


@pytest.mark.parametrize("num_contexts", [1, 2])
def test_a_loss_scale_that_is_a_power_of_two_moves_no_bit(num_contexts: int) -> None:
    contexts = [mx.cpu(number) for number in range(num_contexts)]
    plain, scaled = (
        trained(SparseEmbedding(10, 4), contexts, mx.optimizer.SGD(learning_rate=0.1), scale)
        for scale in (1.0, 1024.0)
    )
    assert (plain == scaled).all()


def test_a_momentum_moves_only_rows_that_are_used() -> None:
    """In a dense table all rows move on by their momentum."""
    sparse = trained(SparseEmbedding(10, 4), [mx.cpu()], mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
    dense = trained(
        mx.gluon.nn.Embedding(10, 4), [mx.cpu()], mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)
    )
    np.testing.assert_allclose(sparse[3], dense[3], atol=1e-6)  # used in every step
    assert (np.abs(sparse[7] - dense[7]) > 1e-3).all()  # not used in the last one


@pytest.mark.parametrize("wrong", [-1, 10, 2.5, float("nan")])
def test_ids_that_are_no_row_are_refused(wrong: float) -> None:
    layer = SparseEmbedding(10, 4)
    layer.initialize()
    with pytest.raises(DataError, match=rf"there is no row {wrong}.*; ids are whole numbers from 0 to 9"):
        layer(mx.nd.array([[0, 9], [wrong, 3]]))


def test_float32_cannot_name_the_rows_of_a_very_large_table() -> None:
    layer = SparseEmbedding((1 << 24) + 1, 1)
    with pytest.raises(UsageError, match="give int32"):
        layer(mx.nd.array([0]))


def test_a_frozen_table_keeps_no_sums_from_being_exact() -> None:
    """And no worker from updating: the store, the sums and the refusals go by the same tables."""
    for is_frozen in (False, True):
        layer = SparseEmbedding(10, 4)
        layer.weight.grad_req = "null" if is_frozen else "write"
        found = sparse_rows.trained_tables([layer.weight, mx.gluon.nn.Dense(3).weight])
        assert found == ([] if is_frozen else [layer.weight])


@pytest.mark.parametrize(
    ("optim", "store", "reason"),
    [
        (Optim(optimizer="adamw"), "local", "--optimizer adamw"),
        (Optim(average=2), "dist_sync", "--average 2"),
        (Optim(ema=0.9), "dist_sync", "--ema 0.9"),
        (Optim(clip_value=1), "dist_sync", "--clip-value 1"),
        (Optim(compress="2bit"), "dist_sync", "--compress 2bit"),
    ],
)
def test_what_a_table_cannot_have_is_refused(optim: Optim, store: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        store_checks.check_tables(Run(model=Model(), optim=optim, layout=Layout(kvstore=store)), [])


def test_weights_that_servers_hold_are_not_pruned_one_by_one() -> None:
    run = Run(model=Model(prune=0.5, prune_by="weight"), optim=Optim(), layout=Layout(kvstore="dist_sync"))
    with pytest.raises(UsageError, match=r"--prune 0\.5 --prune-by weight with --kvstore dist_sync"):
        store_checks.check_tables(run, [])


def test_clipping_a_workers_own_update_is_not() -> None:
    for store in ("local", "dist_async"):
        store_checks.check_tables(Run(optim=Optim(clip_norm=1), layout=Layout(kvstore=store)), [])
