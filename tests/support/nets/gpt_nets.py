"""Small GPTs, as a run builds them."""

from __future__ import annotations

from mxtrain import config
from mxtrain.tasks import lm
from mxtrain.train.net import build_net

END, WORDS, LENGTH = 49, 50, 12


def built(model: str = "gpt:layers=2,heads=2,width=16", flags: str = ""):
    from mxtrain.runtime import mx

    line = f"--task lm --model {model} --window {LENGTH} --batch-size 4 --micro-batch 4 {flags}"
    run = config.parse(line.split())
    described = {"tokenizer": "bytes", "vocab_size": WORDS, "end_token": END, "window": LENGTH}
    task = lm.LanguageModel(run, described)
    net = build_net.build_to_train(task, [mx.cpu()]).net
    return net, lambda tokens: net(mx.nd.array(tokens)).asnumpy()
