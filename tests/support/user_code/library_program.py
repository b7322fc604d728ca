"""A user's program: it trains by `fit(...)`, over a cluster if it is started so, and goes on afterwards."""

import json
import os
import sys
import time

from mxtrain.config import Run
from mxtrain.evaluate import evaluate
from mxtrain.fit import fit
from mxtrain.runtime import mx
from tests.support.user_code import user_data

out, kvstore, num_workers = sys.argv[1:]

nn = mx.gluon.nn
net = nn.HybridSequential()
net.add(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D())
net.add(nn.Dropout(0.1), nn.Dense(2))

num_calls = []
result = fit(
    Run.of(
        out=out,
        kvstore=kvstore,
        num_workers=int(num_workers),
        **{"batch_size": 16, "micro_batch": 4, "image_size": 16, "lr": 0.05, "epochs": 2, "log": "none"},
    ),
    **{"train": user_data.dataset(), "val": user_data.held_out(), "net": net},
    loss=mx.gluon.loss.SoftmaxCrossEntropyLoss(),
    on_step=num_calls.append,
)
curve = [(each["kind"], each["step"], each.get("loss"), each.get("val_loss")) for each in result.history]
time.sleep(0.3)
scores = evaluate(result)
name = os.environ.get("MXTRAIN_NODE", "alone")
print(json.dumps({"name": name, "curve": curve, "scores": scores, "calls": len(num_calls)}))
