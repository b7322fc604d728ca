"""Which users will like which items, by a table of rows on parameter servers: a task of one's own.

    python -m examples.recommender_data data/
    python -m mxtrain.fit --task examples.recommender:Liking --train data/train.rec --val data/val.rec \
        --kvstore dist_sync --update servers --num-workers 2 --optimizer adam --lr 0.02 --weight-decay 0 \
        --batch-size 1000 --micro-batch 500 --epochs 4 --out runs/recommender
    python -m mxtrain.evaluate runs/recommender --metric log_loss,calibration,ndcg:k=3,recall_at:k=3

Users and items are whatever numbers a shop has given them. A row comes to life when its user or item is first seen, on
the server that owns it; a worker holds the rows of its batches alone. A record's payload are two numbers of 8 bytes, a
user and an item; its label is 1 where the user likes the item, and 0 elsewhere.
"""

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import BadSample, Field
from mxtrain.models.contract import Contract
from mxtrain.tasks.metrics import metric_selection
from mxtrain.tasks.task import Outcome, Score, Task

WIDTH = 16


def read(record, rng, row):
    """Return the sample of a record."""
    pair = np.frombuffer(record.payload, "<i8")
    if pair.shape != (2,):
        raise BadSample("it is no pair of numbers")
    return {"pair": pair, "likes": record.label}


class Liking(Task):
    unit = "pairs"
    metric_kind = "labels"  # a score for each label, here of one
    score = Score("auc")
    fields = (Field("pair", (2,), "int64"), Field("likes", ()))

    @classmethod
    def describe(cls, run, train, val):
        for dataset in filter(None, (train, val)):
            if not np.isin(dataset.labels(), (0, 1)).all():
                raise DataError(f"{dataset.path}: has labels that are neither 0 nor 1")
        return {}

    def reader(self, is_training):
        return read

    def contract(self):
        return Contract(((2,),), (1,), "pair", "pairs of a user and an item", "it takes one score")

    def build_net(self):
        from examples.recommender_net import Matches

        return Matches(WIDTH)

    def training_forward(self, teacher):
        return forward

    def metrics(self):
        return (metric_selection.named("auc", self.metric_kind, self.predictions_and_targets),)

    def predictions_and_targets(self, output, arrays):
        return output.asnumpy().reshape(-1, 1), arrays["likes"].reshape(-1, 1)

    def groups(self, by):
        """Return whose candidates --metric ndcg and recall_at rank."""
        return lambda arrays: arrays["pair"][:, 0]


def forward(net, arrays):
    scores, likes = net(arrays["pair"]).reshape(-1), arrays["likes"]
    losses = scores.relu() - scores * likes + (1 + (-scores.abs()).exp()).log()
    return Outcome(losses, len(likes), {}, scores)
