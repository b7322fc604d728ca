"""Pictures and their masks in PyTorch, for `torch_side.py`."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np
import torch
from torch.nn import functional

from benchmarks.learn.torch_fcn import Fcn
from benchmarks.learn.torch_side import tensor
from mxtrain import config
from mxtrain.data.loading.loader import Batch
from mxtrain.data.masks.mask_format import IGNORED
from mxtrain.tasks.segmentation import Segmentation


class Masks:
    """Pictures of each of whose pixels the class is learnt; the score is the mean of the classes' overlaps."""

    def __init__(self, run: config.Run, description: Mapping[str, Any]):
        assert run.model.model == "fcn_resnet50_voc" and "class_weights" not in description
        self.task, self._aux_weight = Segmentation(run, description), run.model.aux_weight
        self._num_classes = len(description["class_names"])
        self.net = Fcn(self._num_classes)

    def losses_of(self, arrays: dict[str, Any]) -> tuple[torch.Tensor, int]:
        mask = torch.from_numpy(arrays["mask"].astype(np.int64))
        own, auxiliary = (
            functional.cross_entropy(scores, mask, ignore_index=IGNORED, reduction="sum")
            for scores in self.net(tensor(arrays["data"]))
        )
        return own + self._aux_weight * auxiliary, int((mask != IGNORED).sum())

    def score(self, batches: Iterable[Batch]) -> dict[str, float]:
        counts = np.zeros((self._num_classes, self._num_classes), np.int64)
        for batch in batches:
            mask, answer = batch.arrays["mask"], self.net(tensor(batch.arrays["data"]))[0].argmax(1).numpy()
            np.add.at(counts, (mask[mask != IGNORED], answer[mask != IGNORED]), 1)
        hits = np.diag(counts)
        overlaps = hits / (counts.sum(axis=0) + counts.sum(axis=1) - hits)
        return {"val_miou": float(overlaps.mean())}
