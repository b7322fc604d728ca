"""The same net with a table of rows and with a dense one: small patches of a picture, by how bright they are."""

from __future__ import annotations

from typing import Any

from mxtrain.models import SparseEmbedding
from mxtrain.models.nets.table import Table
from mxtrain.runtime import mx

NUM_PATCHES, NUM_LEVELS, WIDTH = 16, 32, 8
NUM_ROWS = NUM_PATCHES * NUM_LEVELS * 4  # of which most never occur


class Patches(mx.gluon.Block):
    """Each patch of a picture of 16 pixels is looked up, by its place and its brightness."""

    def __init__(self, table: Any, num_classes: int):
        super().__init__()
        self.table = table
        self.head = mx.gluon.nn.HybridSequential()
        # A bias before a norm has a gradient of rounding errors, which Adam makes as large as any.
        self.head.add(mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(32, use_bias=False), mx.gluon.nn.BatchNorm())
        self.head.add(mx.gluon.nn.Activation("tanh"), mx.gluon.nn.Dense(num_classes))

    def forward(self, pictures: Any) -> Any:
        return self.head(self.table(self.ids(pictures)))

    def ids(self, pictures: Any) -> Any:
        patches = mx.nd.Pooling(pictures.mean(axis=1, keepdims=True), (4, 4), "avg", stride=(4, 4))
        levels = mx.nd.clip(mx.nd.floor((patches.reshape((0, -1)) + 2.5) * 6), 0, NUM_LEVELS - 1)
        return mx.nd.broadcast_add(levels, mx.nd.arange(NUM_PATCHES, ctx=pictures.context) * NUM_LEVELS)


class TwoTables(Patches):
    """A second table, whose rows are added to those of the first."""

    def __init__(self, table: Any, fixed: Any, num_classes: int):
        super().__init__(table, num_classes)
        self.fixed = fixed

    def forward(self, pictures: Any) -> Any:
        ids = self.ids(pictures)
        return self.head(self.table(ids) + self.fixed(ids))


class Unbounded(Patches):
    def ids(self, pictures: Any) -> Any:
        return super().ids(pictures) + NUM_ROWS - NUM_LEVELS * 3


def sparse(num_classes: int) -> Any:
    return Patches(SparseEmbedding(NUM_ROWS, WIDTH, init=mx.init.Uniform(0.5)), num_classes)


def two(num_classes: int) -> Any:
    tables = [SparseEmbedding(NUM_ROWS, WIDTH, init=mx.init.Uniform(0.5)) for _ in range(2)]
    return TwoTables(*tables, num_classes)


def dense(num_classes: int) -> Any:
    table = mx.gluon.nn.Embedding(NUM_ROWS, WIDTH, weight_initializer=mx.init.Uniform(0.5))
    return Patches(table, num_classes)


def gluons_own(num_classes: int) -> Any:
    return Patches(mx.gluon.nn.Embedding(NUM_ROWS, WIDTH, sparse_grad=True), num_classes)


def unbounded(num_classes: int) -> Any:
    return Unbounded(SparseEmbedding(NUM_ROWS, WIDTH), num_classes)


def owned(num_classes: int) -> Any:
    """Rows that come to life as they are used, of a table that the servers own."""
    return Patches(Table("patches", WIDTH, scale=0.5, optimizer="adagrad", rate_factor=2.0), num_classes)
