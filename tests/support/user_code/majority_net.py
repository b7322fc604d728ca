"""The net of `majority.py`, in a module of its own: what makes samples imports no mxnet."""

from mxtrain.runtime import mx


class Votes(mx.gluon.HybridBlock):
    def __init__(self, num_words):
        super().__init__()
        with self.name_scope():
            self.vote = mx.gluon.nn.Embedding(num_words, 8)
            self.drop = mx.gluon.nn.Dropout(0.1)
            self.count = mx.gluon.nn.Dense(2)

    def hybrid_forward(self, F, words, mask):
        votes = F.broadcast_mul(self.drop(self.vote(words)), mask.expand_dims(2))
        return self.count(votes.sum(axis=1))


class Wide(mx.gluon.HybridBlock):
    def __init__(self, num_words, dropout):
        super().__init__()
        with self.name_scope():
            self.vote = mx.gluon.nn.Embedding(num_words, 64)
            self.each = mx.gluon.nn.HybridSequential()
            for _ in range(4):
                self.each.add(
                    mx.gluon.nn.Dense(64, activation="relu", flatten=False), mx.gluon.nn.Dropout(dropout)
                )
            self.count = mx.gluon.nn.Dense(2)

    def hybrid_forward(self, F, words):
        votes = F.broadcast_mul(self.each(self.vote(words)), (words > 0).expand_dims(2))
        return self.count(votes.mean(axis=1))
