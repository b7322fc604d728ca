"""`majority.py` with a net of one input, with products that are large enough for bfloat16 and --remat."""

from __future__ import annotations

from mxtrain.models.contract import Contract
from mxtrain.tasks.task import Outcome
from tests.support.user_code.majority import LONGEST, WORDS, Majority


class Wide(Majority):
    dropout = 0.1

    def contract(self):
        return Contract(((LONGEST,),), (2,), "sequence", f"sequences of {LONGEST} words", "it takes 2 scores")

    def build_net(self):
        from tests.support.user_code.majority_net import Wide

        return Wide(WORDS, self.dropout)

    def training_forward(self, teacher):
        return forward


class WithoutDropout(Wide):
    dropout = 0.0


def forward(net, arrays):
    """Words behind a sample's end are 0, which is none of them."""
    output = net(arrays["words"].astype("float32")).astype("float32", copy=False)
    label, weight = arrays["label"], arrays["weight"]
    losses = -output.log_softmax(axis=1).pick(label, axis=1) * weight
    hits = (output.argmax(axis=1) == label).sum()
    return Outcome(losses, weight.sum(), {"accuracy": (hits, (label >= 0).sum())}, output)
