"""Pictures and their classes in PyTorch, for `torch_side.py`."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import torch
from torch.nn import functional

from benchmarks.learn.torch_nets import NETS
from benchmarks.learn.torch_side import tensor
from mxtrain import config
from mxtrain.data.loading.loader import Batch
from mxtrain.tasks.classification import Classification


class Pictures:
    """Pictures whose classes are learnt; the score is the accuracy."""

    def __init__(self, run: config.Run, description: Mapping[str, Any]):
        self.task = Classification(run, description)
        self.net = NETS[run.model.model](len(description["class_names"]))

    def losses_of(self, arrays: dict[str, Any]) -> tuple[torch.Tensor, int]:
        scores, label = self.net(tensor(arrays["data"])), tensor(arrays["label"]).long()
        return functional.cross_entropy(scores, label, reduction="sum"), len(label)

    def score(self, batches: Iterable[Batch]) -> dict[str, float]:
        correct, num_samples = 0, 0
        for batch in batches:
            right = self.net(tensor(batch.arrays["data"])).argmax(1) == tensor(batch.arrays["label"])
            correct, num_samples = correct + int(right.sum()), num_samples + len(right)
        return {"val_accuracy": correct / num_samples}
