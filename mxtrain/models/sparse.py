"""An embedding table of which a step moves only the rows that its batch used.

Each worker has a copy of the table, and a gradient of those rows alone. Where the table lives on servers, a forward
pass in training first brings the rows that it needs up to date; evaluations and checkpoints begin with all rows
brought (`kvstore/server_client.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.runtime import mx

LARGEST_IN_FLOAT32 = 1 << 24


class SparseEmbedding(mx.gluon.Block):
    """Rows of `width` numbers for ids from 0 to `num_rows` - 1, of any shape; other ids end the run.

    No HybridBlock, so a net with it is a Block; the parts around it can be hybridized.
    """

    def __init__(self, num_rows: int, width: int, init: Any = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.num_rows, self.width = num_rows, width
        self.weight = self.params.get("weight", shape=(num_rows, width), init=init, grad_stype="row_sparse")
        self.weight.pull_rows = None  # who has the newest ones gives a function of ids that brings them

    def forward(self, ids: Any) -> Any:
        self._refuse_unknown(ids)
        if self.weight.pull_rows is not None and mx.autograd.is_training():
            with mx.autograd.pause():
                self.weight.pull_rows(ids)
        weight = self.weight.data(ids.context)
        return mx.nd.Embedding(ids, weight, input_dim=self.num_rows, output_dim=self.width, sparse_grad=True)

    def _refuse_unknown(self, ids: Any) -> None:
        """MXNet takes the nearest row without a word."""
        if ids.dtype == np.float32 and self.num_rows > LARGEST_IN_FLOAT32:
            raise UsageError(f"{self.name}: float32 cannot tell ids above {LARGEST_IN_FLOAT32}; give int32")
        known = ids.asnumpy()
        is_row = (known >= 0) & (known < self.num_rows) & (known == np.floor(known))
        if not is_row.all():
            raise DataError(
                f"{self.name}: there is no row {known[~is_row][0]}; ids are whole numbers from 0 to {self.num_rows - 1}"
            )
