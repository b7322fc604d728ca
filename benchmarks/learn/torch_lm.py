"""The language model of `lm.py` in PyTorch, for `torch_side.py`."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np
import torch
from torch.nn import functional

from benchmarks.learn.torch_gpt import Gpt
from mxtrain import config
from mxtrain.config.components import nets
from mxtrain.data.loading.loader import Batch
from mxtrain.data.text import tokenizers
from mxtrain.tasks.lm import NOT_COUNTED, LanguageModel


class Texts:
    """Windows of tokens, of each of which the next one is learnt; the score is bits for a byte of text."""

    def __init__(self, run: config.Run, description: Mapping[str, Any]):
        self.task, numbers = LanguageModel(run, description), nets.parse(run.model.model).hyperparameters
        assert not numbers.pop("dropout"), "PyTorch would drop others"
        self.net = Gpt(self.task.vocab_size, self.task.window, description["end_token"], **numbers)

    def losses_of(self, arrays: dict[str, Any]) -> tuple[torch.Tensor, int]:
        tokens, targets = (torch.from_numpy(arrays[name].astype(np.int64)) for name in ("tokens", "targets"))
        scores = self.net(tokens).flatten(0, 1)
        losses = functional.cross_entropy(
            scores, targets.flatten(), ignore_index=NOT_COUNTED, reduction="sum"
        )
        return losses, int((targets != NOT_COUNTED).sum())

    def score(self, batches: Iterable[Batch]) -> dict[str, float]:
        sizes = tokenizers.bytes_of_tokens(self.task.description["tokenizer"])
        assert sizes is not None
        total, num_bytes = 0.0, 0
        for batch in batches:
            total += self.losses_of(batch.arrays)[0].item()
            targets = batch.arrays["targets"]
            num_bytes += int(sizes[targets[targets != NOT_COUNTED]].sum())
        return {"val_bits_per_byte": total / float(np.log(2)) / num_bytes}
