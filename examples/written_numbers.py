"""Read handwritten numbers of one to six digits, without being told where a digit begins: a task of one's own.

    python -m examples.written_numbers_data data/
    python -m mxtrain.fit --task examples.written_numbers:Reading --train data/train.rec --val data/val.rec \
        --optimizer adam --lr 0.003 --weight-decay 0 --batch-size 32 --epochs 6 --out runs/numbers

The loss is CTC's (Graves et al., 2006): of all ways to spread the digits of a number over its columns of pixels.
"""

import numpy as np

from mxtrain.cluster.worker_group import in_order
from mxtrain.data.fields import BadSample, Field
from mxtrain.models.contract import Contract
from mxtrain.tasks.task import Outcome, Score, Task

HEIGHT, LONGEST, MOST_DIGITS, BLANK = 8, 72, 6, 10


def read(record, rng, row):
    """Return the sample of a record: its columns of pixels, and the digits that are to be read there."""
    payload = np.frombuffer(record.payload, np.uint8)
    digits, pixels = payload[1 : 1 + payload[0]], payload[1 + payload[0] :]
    if not len(digits) or digits.max() > 9 or not len(pixels) or len(pixels) % HEIGHT:
        raise BadSample("it is no row of digits with its columns")
    columns = pixels.reshape(-1, HEIGHT) / 16
    return {"columns": columns, "is_column": np.ones(len(columns)), "digits": digits}


class Reading(Task):
    unit = "numbers"
    score = Score("share_read")
    fields = (
        Field("columns", (LONGEST, HEIGHT), multiple=8),  # as long as the longest of a micro-batch
        Field("is_column", (LONGEST,), multiple=8),
        Field("digits", (MOST_DIGITS,), multiple=MOST_DIGITS, fill=-1),  # always six: -1 is none
    )

    @classmethod
    def describe(cls, run, train, val):
        return {}

    def reader(self, is_training):
        return read

    def contract(self):
        return Contract(
            inputs=((LONGEST, HEIGHT), (LONGEST,)),
            answer=(LONGEST // 2, BLANK + 1),
            noun="number",
            takes="columns of pixels, and which are there",
            expects="it has to score the digits and a blank in every second column",
        )

    def build_net(self):
        from examples.written_numbers_net import Reader

        return Reader(BLANK + 1)

    def training_forward(self, teacher):
        return forward

    def metrics(self):
        return (ShareRead(),)


def forward(net, arrays):
    """Return the losses of a micro-batch. Their weight are its digits, so that long numbers count for more."""
    from mxtrain.runtime import mx

    digits, is_column = arrays["digits"], arrays["is_column"]
    scores = net(arrays["columns"], is_column)
    lengths = (is_column.sum(axis=1) / 2).ceil()
    of_columns = scores.swapaxes(0, 1)
    losses = mx.nd.ctc_loss(of_columns, digits, lengths, use_data_lengths=True, blank_label="last")
    return Outcome(losses, (digits >= 0).sum(), {}, scores)


class ShareRead:
    """The share of numbers of which every digit is read right."""

    width = 2

    def state(self, output, arrays):
        lengths = np.ceil(arrays["is_column"].sum(axis=1) / 2).astype(int)
        found = [read_off(row[:length]) for row, length in zip(output.asnumpy().argmax(axis=2), lengths)]
        wanted = [digits[digits >= 0] for digits in arrays["digits"]]
        return np.array([sum(map(np.array_equal, found, wanted)), len(wanted)], float)

    def finish(self, states):
        num_right, count = in_order(states)
        return {"share_read": num_right / count}


def read_off(symbols):
    """Return the digits that a row of symbols stands for: each one that is another than the symbol before it."""
    is_new = np.append(True, symbols[1:] != symbols[:-1])
    return symbols[is_new & (symbols != BLANK)]
