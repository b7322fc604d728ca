"""A whole task of one's own, to copy and change (docs/tasks.md): learn a number, and how far off it may be.

    python -m mxtrain.fit --task examples.own_task:Gauge --train examples.own_task_data:train \
        --val examples.own_task_data:val --optimizer adam --lr 0.01 --weight-decay 0 --epochs 15 --out runs/gauge
    python -m mxtrain.predict runs/gauge readings.csv
"""

from pathlib import Path

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.fields import BadSample, Field
from mxtrain.models.contract import Contract
from mxtrain.tasks.task import Outcome, Task

NUM_READINGS = 2


def read(record, rng, row):
    """Return the sample of a record: its payload are a .rec's bytes, or the array that a Dataset gives."""
    readings = np.frombuffer(record.payload, "<f4")
    if len(readings) != NUM_READINGS or not np.isfinite(readings).all():
        raise BadSample(f"it is not {NUM_READINGS} numbers")
    return {"readings": readings, "label": record.label}


class Gauge(Task):
    fields = (Field("readings", (NUM_READINGS,)), Field("label", ()))
    metric_kind = "numbers"  # --metric mae, rmse and r2 compare what `predictions_and_targets` returns

    @classmethod
    def describe(cls, run, train, val):
        for dataset in filter(None, (train, val)):
            if not np.isfinite(dataset.labels()).all():
                raise DataError(f"{dataset.path}: has a label that is no number")
        return {"num_readings": NUM_READINGS}

    def reader(self, is_training):
        return read

    def contract(self):
        return Contract(((NUM_READINGS,),), (2,), "sample", "two readings", "it has to give two numbers")

    def build_net(self):
        from mxtrain.runtime import mx  # inside, as what makes samples runs without mxnet

        dense, net = mx.gluon.nn.Dense, mx.gluon.nn.HybridSequential()
        net.add(dense(32, "relu"), dense(32, "relu"), dense(2))
        return net

    def training_forward(self, teacher):
        return forward

    def metrics(self):
        return (Coverage(),)

    def predictions_and_targets(self, output, arrays):
        return output.asnumpy()[:, 0], arrays["label"]

    def samples_in(self, source):
        lines = enumerate(Path(source).read_text().splitlines(), 1)
        return [(f"{source}:{number}", line.split(",")) for number, line in lines]

    def inputs_of(self, source):
        try:
            return {"readings": np.array(source, "float32").reshape(NUM_READINGS)}
        except ValueError:
            raise DataError(f"it is not {NUM_READINGS} numbers") from None

    def answer(self, net, arrays):
        return net(arrays["readings"])

    def shown(self, output):
        return {"number": float(output[0]), "deviation": float(np.exp(output[1]))}

    def in_words(self, shown):
        return f"{shown['number']:.3f}, give or take {shown['deviation']:.3f}"


def forward(net, arrays):
    """Return the losses of a micro-batch: how unlikely its labels are in the normal distributions answered."""
    output = net(arrays["readings"]).astype("float32")
    misses = (arrays["label"] - output[:, 0]) / output[:, 1].exp()
    return Outcome(misses**2 / 2 + output[:, 1], len(misses), {}, output)


class Coverage:
    """The share of labels within two deviations: 0.954 of a normal distribution."""

    width = 2  # of a micro-batch's state

    def state(self, output, arrays):
        is_within = abs(arrays["label"] - output[:, 0].asnumpy()) < 2 * np.exp(output[:, 1].asnumpy())
        return np.array([is_within.sum(), len(is_within)], float)

    def finish(self, states):
        num_within, count = np.sum(states, axis=0)
        return {"coverage": num_within / count}
