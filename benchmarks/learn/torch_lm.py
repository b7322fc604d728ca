"""The language model of `lm.py` in PyTorch, for `torch_side.py`."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

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


class Gpt(nn.Module):
    """`mxtrain/models/nets/gpt.py`'s net, layer for layer, so that weights load by their order."""

    def __init__(self, vocabulary: int, length: int, end_token: int, layers: int, heads: int, width: int):
        super().__init__()
        self.end_token = end_token
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(heads, width) for _ in range(layers))
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        documents = (tokens == self.end_token).cumsum(1)
        seen = (documents[:, :, None] == documents[:, None]).tril()
        x = self.tokens(tokens) + self.positions(seen.sum(2) - 1)
        for layer in self.layers:
            x = layer(x, seen[:, None])
        return self.scores(self.norm(x))


class Layer(nn.Module):
    def __init__(self, heads: int, width: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense_norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        of_heads = self.project(self.attention_norm(x)).unflatten(2, (self.heads, 3, -1)).transpose(1, 2)
        query, key, value = of_heads.unbind(3)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        x = x + self.join(found.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.widen(self.dense_norm(x))))
