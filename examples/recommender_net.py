from mxtrain.models import Table
from mxtrain.runtime import mx

nn = mx.gluon.nn


class Matches(mx.gluon.Block):
    """One row for each user and item; what both rows have in common is scored."""

    def __init__(self, width):
        super().__init__()
        with self.name_scope():
            self.rows = Table("rows", width, field="pair", scale=0.2, optimizer="adam")
            self.score = nn.Dense(1)

    def forward(self, pairs):
        users, items = self.rows(pairs).split(2, axis=1, squeeze_axis=True)
        return self.score(users * items)
