"""A run of `--task lm` again, in PyTorch: `torch_lm.py RUN_FOLDER WEIGHTS.npz OUT`, with torch's Python.

From mxtrain come the config, the windows in their order as the loader makes them, and the rate of each step. Net, loss,
gradients and optimizer are PyTorch's. Writes OUT/metrics.jsonl as mxtrain does.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.harness import commands
from benchmarks.learn.torch_side import OPTIMIZERS, load
from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.config.components import nets
from mxtrain.data.loading import run_plan, sample_requests
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader, loader_options
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.text import tokenizers
from mxtrain.tasks.lm import NOT_COUNTED, LanguageModel


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


def main() -> None:
    theirs, weights, out = map(Path, sys.argv[1:])
    found = directory.newest(theirs / "checkpoints")
    assert found is not None
    run, description = config.from_flat(found[1]["config"]), found[1]["description"]
    task, numbers = LanguageModel(run, description), nets.parse(run.model.model).hyperparameters
    assert not numbers.pop("dropout"), "PyTorch would drop others"
    net = Gpt(task.vocab_size, task.window, description["end_token"], **numbers)
    load(net, dict(np.load(weights)))
    rates = [record["lr"] for record in commands.records(theirs, "train")]
    out.mkdir(parents=True)
    with (out / "metrics.jsonl").open("w") as metrics:
        for step, loss in enumerate(train(run, task, net, rates), 1):
            metrics.write(json.dumps({"kind": "train", "step": step, "loss": loss}) + "\n")
        judged = {"kind": "eval", "step": len(rates), "val_bits_per_byte": bits_per_byte(run, task, net)}
        metrics.write(json.dumps(judged) + "\n")


def train(run: config.Run, task: LanguageModel, net: Gpt, rates: list[float]) -> Iterator[float]:
    """Yield the loss of each step after making it."""
    windows = task.samples_of(run, open_set(str(run.data.train)))
    update = OPTIMIZERS[run.optim.optimizer](run.optim, net)
    samples_of, plan = sample_requests.epoch_sampler(run, windows), run_plan.of_run(run, len(windows))
    asked = sample_requests.training_requests(samples_of, plan, range(len(rates)))
    with _open(run, task, windows, asked) as loader:
        for step, batches in itertools.groupby(loader, key=lambda batch: batch.request.step):
            net.zero_grad()
            total, weight = 0.0, 0
            for batch in batches:
                losses, count = losses_of(net, batch.arrays)
                losses.backward()
                total, weight = total + losses.item(), weight + count
                loader.release(batch)
            for parameter in net.parameters():
                parameter.grad /= weight
            update(rates[step])
            yield total / weight


def losses_of(net: Gpt, arrays: dict[str, Any]) -> tuple[torch.Tensor, int]:
    """Return the sum of the losses that count, and their number."""
    tokens, targets = (torch.from_numpy(arrays[name].astype(np.int64)) for name in ("tokens", "targets"))
    scores = net(tokens).flatten(0, 1)
    losses = functional.cross_entropy(scores, targets.flatten(), ignore_index=NOT_COUNTED, reduction="sum")
    return losses, int((targets != NOT_COUNTED).sum())


def bits_per_byte(run: config.Run, task: LanguageModel, net: Gpt) -> float:
    """Return the bits that a byte of the held-out text takes."""
    windows = task.samples_of(run, open_set(str(run.data.val)))
    asked = sample_requests.evaluation_requests(len(windows), 8)
    sizes = tokenizers.bytes_of_tokens(task.description["tokenizer"])
    assert sizes is not None
    total, num_bytes = 0.0, 0
    with torch.no_grad(), _open(run, task, windows, asked) as loader:
        for batch in loader:
            total += losses_of(net, batch.arrays)[0].item()
            targets = batch.arrays["targets"]
            num_bytes += int(sizes[targets[targets != NOT_COUNTED]].sum())
            loader.release(batch)
    return total / float(np.log(2)) / num_bytes


def _open(run: config.Run, task: LanguageModel, windows: Any, asked: Iterable[Any]) -> Loader:
    assembly = SampleAssembly(windows, task.reader(True), task.fields, run.optim.seed)
    return Loader(assembly, iter(asked), loader_options(run.data))


if __name__ == "__main__":
    main()
