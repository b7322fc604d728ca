from mxtrain.models import SparseEmbedding
from mxtrain.runtime import mx

nn = mx.gluon.nn


class Matches(mx.gluon.Block):
    """One row for each user and item; what both rows have in common is scored."""

    def __init__(self, num_rows, width):
        super().__init__()
        with self.name_scope():
            self.rows = SparseEmbedding(num_rows, width, init=mx.init.Normal(0.1))
            self.score = nn.Dense(1)

    def forward(self, pairs):
        users, items = self.rows(pairs).split(2, axis=1, squeeze_axis=True)
        return self.score(users * items)
