"""The GPT of `mxtrain/models/nets/gpt.py` in PyTorch. Needs nothing else."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Gpt(nn.Module):
    """mxtrain's net, layer for layer, so that weights load by their order."""

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
