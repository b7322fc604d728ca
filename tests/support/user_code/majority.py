"""A task of one's own, of sequences that vary in length: which of the words 1 and 2 comes more often, among others.

A record's payload has a byte for each word. A sample weighs as much as it has words; one labelled -1 weighs nothing.
"""

from __future__ import annotations

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import BadSample, Field
from mxtrain.models.contract import Contract
from mxtrain.tasks.task import Outcome, Task

WORDS, LONGEST, STEP = 10, 24, 8


def read(record, rng, row):
    words = np.frombuffer(record.payload, np.uint8)
    if not len(words) or words.max() >= WORDS:
        raise BadSample(f"its words are not numbers below {WORDS}")
    weight = len(words) if record.label >= 0 else 0
    return {"words": words, "mask": np.ones(len(words)), "label": record.label, "weight": float(weight)}


class Majority(Task):
    unit = "sequences"
    step_means = ("accuracy",)
    fields = (
        Field("words", (LONGEST,), "int32", multiple=STEP),
        Field("mask", (LONGEST,), multiple=STEP),
        Field("label", ()),
        Field("weight", ()),
    )

    @classmethod
    def describe(cls, run, train, val):
        for dataset in filter(None, (train, val)):
            if not np.isin(dataset.labels(), (-1, 0, 1)).all():
                raise DataError(f"{dataset.path}: has labels that are not -1, 0 or 1")
        return {"words": WORDS}

    def summary(self):
        return f"sequences of {self.description['words']} words"

    def reader(self, is_training):
        return read

    def contract(self):
        shape = (LONGEST,)
        return Contract(
            (shape, shape), (2,), "sequence", f"sequences of {LONGEST} words", "it takes 2 scores"
        )

    def build_net(self):
        from tests.support.user_code.majority_net import Votes

        return Votes(WORDS)

    def training_forward(self, teacher):
        return forward

    def metrics(self):
        return (RankingQuality(),)


def forward(net, arrays):
    output = net(arrays["words"].astype("float32"), arrays["mask"])
    label, weight = arrays["label"], arrays["weight"]
    losses = -output.log_softmax(axis=1).pick(label, axis=1) * weight
    hits = (output.argmax(axis=1) == label).sum()  # none where the label is -1
    return Outcome(losses, weight.sum(), {"accuracy": (hits, (label >= 0).sum())}, output)


class RankingQuality:
    """The area under the ROC curve: no sum over samples, and so a state of all their scores."""

    width = 0
    names = ("auc",)

    def state(self, output, arrays):
        scores = output.asnumpy() @ [-1.0, 1.0]
        return np.stack([scores, arrays["label"]], axis=1)[arrays["label"] >= 0].ravel()

    def finish(self, states):
        scores, labels = np.concatenate(states).reshape(-1, 2).T
        wrong, right = scores[labels == 0], scores[labels == 1]
        return {"auc": float(np.mean(np.sign(right[:, None] - wrong) / 2 + 0.5))}
