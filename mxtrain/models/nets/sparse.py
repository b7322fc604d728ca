"""An embedding layer of which a step updates only the rows that its batch used.

Owns the layer. Each worker has a copy of the table, and a gradient of those rows alone. Where the table lives on
servers, a forward pass in training first pulls the rows that it uses, and evaluations and checkpoints start with all
rows pulled (`kvstore/server_client.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

LARGEST_IN_FLOAT32 = 1 << 24


class SparseEmbedding(mx.gluon.Block):
    """A table of `num_rows` rows of `width` numbers, for ids from 0 on in an array of any shape.

    Another id raises DataError. It is no HybridBlock, so a net with it is a Block; the parts around it can be
    hybridized.
    """

    def __init__(self, num_rows: int, width: int, init: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_rows, self.width = num_rows, width
        self.weight = self.params.get("weight", shape=(num_rows, width), init=init, grad_stype="row_sparse")
        self.weight.pull_rows = (
            None  # a function of ids that pulls their rows, set where servers hold the table
        )

    def forward(self, ids: Any) -> Any:
        if isinstance(ids, mx.sym.Symbol):  # traced to be exported
            return mx.sym.Embedding(ids, self.weight.var(), input_dim=self.num_rows, output_dim=self.width)
        self._refuse_unknown(ids)
        if self.weight.pull_rows is not None and mx.autograd.is_training():
            with mx.autograd.pause():
                self.weight.pull_rows(ids)
        weight = self.weight.data(ids.context)
        return mx.nd.Embedding(ids, weight, input_dim=self.num_rows, output_dim=self.width, sparse_grad=True)

    def _refuse_unknown(self, ids: NDArray) -> None:
        """Refuse ids without a row, for which MXNet silently takes the nearest one."""
        if ids.dtype == np.float32 and self.num_rows > LARGEST_IN_FLOAT32:
            raise UsageError(f"{self.name}: float32 cannot tell ids above {LARGEST_IN_FLOAT32}; give int32")
        known = ids.asnumpy()
        is_row = (known >= 0) & (known < self.num_rows) & (known == np.floor(known))
        if not is_row.all():
            raise DataError(
                f"{self.name}: there is no row {known[~is_row][0]}; ids are whole numbers from 0 to {self.num_rows - 1}"
            )
