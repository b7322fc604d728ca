from mxtrain.runtime import mx

nn = mx.gluon.nn


class Reader(mx.gluon.HybridBlock):
    """Convolutions along a row of columns, and scores for every second one; what lies behind its end stays zero."""

    def __init__(self, num_symbols):
        super().__init__()
        with self.name_scope():
            self.narrow = nn.Conv1D(64, 3, padding=1, activation="relu")
            self.wide = nn.Conv1D(128, 5, strides=2, padding=2, activation="relu")
            self.wider = nn.Conv1D(128, 5, padding=2, activation="relu")
            self.scores = nn.Dense(num_symbols, flatten=False)

    def hybrid_forward(self, F, columns, is_column):
        mask = is_column.expand_dims(1)
        found = F.broadcast_mul(self.narrow(columns.swapaxes(1, 2)), mask)
        half = F.slice(mask, begin=(None, None, 0), end=(None, None, None), step=(1, 1, 2))
        found = F.broadcast_mul(self.wide(found), half)
        found = F.broadcast_mul(self.wider(found), half)
        return self.scores(found.swapaxes(1, 2))
