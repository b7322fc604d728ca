"""A run of mxtrain again, in PyTorch: `torch_side.py RUN_FOLDER WEIGHTS.npz OUT`, with torch's Python.

From mxtrain come the config, the samples in their order as the loader makes them, and the rate of each step; all of
that knows no mxnet. Net, loss, gradients and optimizer are PyTorch's. Writes OUT/metrics.jsonl as mxtrain does.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator, Protocol

import numpy as np
import torch
from torch import nn

from benchmarks.harness import commands
from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.data.interfaces import Dataset
from mxtrain.data.loading import run_plan, sample_requests
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Batch, Loader, Request, loader_options
from mxtrain.data.records.record_sets import open_set
from mxtrain.tasks.interfaces.data import TaskData

SUBJECTS = {
    "classification": "benchmarks.learn.torch_pictures:Pictures",
    "lm": "benchmarks.learn.torch_lm:Texts",
    "segmentation": "benchmarks.learn.torch_masks:Masks",
}


MICRO_BATCH = 32  # of evaluations


class Subject(Protocol):
    """A thing to learn; made of the run and the description in its checkpoint."""

    task: TaskData
    net: nn.Module

    def losses_of(self, arrays: dict[str, Any]) -> tuple[torch.Tensor, int]:
        """Return the sum of a micro-batch's losses, and its weight."""

    def score(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Return the score over all samples that were held out."""


def main() -> None:
    theirs, weights, out = map(Path, sys.argv[1:])
    found = directory.newest(theirs / "checkpoints")
    assert found is not None
    run = config.from_flat(found[1]["config"])
    module, _, name = SUBJECTS[run.model.task].partition(":")
    subject: Subject = getattr(importlib.import_module(module), name)(run, found[1]["description"])
    load(subject.net, dict(np.load(weights)))
    rates = [record["lr"] for record in commands.records(theirs, "train")]
    out.mkdir(parents=True)
    with (out / "metrics.jsonl").open("w") as metrics:
        for step, loss in enumerate(train(run, subject, rates), 1):
            metrics.write(json.dumps({"kind": "train", "step": step, "loss": loss}) + "\n")
        metrics.write(json.dumps({"kind": "eval", "step": len(rates), **evaluate(run, subject)}) + "\n")


def train(run: config.Run, subject: Subject, rates: list[float]) -> Iterator[float]:
    """Yield the loss of each step after making it."""
    samples, net = subject.task.samples_of(run, open_set(str(run.data.train))), subject.net
    update = OPTIMIZERS[run.optim.optimizer](run.optim, net)
    net.train()
    samples_of, plan = sample_requests.epoch_sampler(run, samples), run_plan.of_run(run, len(samples))
    requests = sample_requests.training_requests(samples_of, plan, range(len(rates)))
    batches = _loaded(run, subject.task, samples, requests, is_training=True)
    for step, of_step in itertools.groupby(batches, key=lambda batch: batch.request.step):
        net.zero_grad()
        total, weight = 0.0, 0
        for batch in of_step:
            losses, count = subject.losses_of(batch.arrays)
            losses.backward()
            total, weight = total + losses.item(), weight + count
        for parameter in net.parameters():
            parameter.grad /= weight
        update(rates[step])
        yield total / weight


def evaluate(run: config.Run, subject: Subject) -> dict[str, float]:
    samples = subject.task.samples_of(run, open_set(str(run.data.val)))
    requests = sample_requests.evaluation_requests(len(samples), MICRO_BATCH)
    subject.net.eval()
    with torch.no_grad():
        return subject.score(_loaded(run, subject.task, samples, requests, is_training=False))


def _loaded(
    run: config.Run, task: TaskData, samples: Dataset, requests: Iterable[Request], is_training: bool
) -> Iterator[Batch]:
    """Yield the micro-batches of `requests`; each is valid until the next one."""
    assembly = SampleAssembly(samples, task.reader(is_training), task.fields, run.optim.seed)
    with Loader(assembly, iter(requests), loader_options(run.data)) as loader:
        for batch in loader:
            yield batch
            loader.release(batch)


def tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def load(net: nn.Module, arrays: dict[str, Any]) -> None:
    """Load weights by position: both nets are built in the same order, so are their arrays."""
    state = {
        name: tensor for name, tensor in net.state_dict().items() if not name.endswith("num_batches_tracked")
    }
    shapes = [tuple(tensor.shape) for tensor in state.values()]
    assert shapes == [array.shape for array in arrays.values()], "not the same net"
    for tensor, array in zip(state.values(), arrays.values()):
        tensor.copy_(torch.from_numpy(array))


def adamw(optim: config.Optim, net: nn.Module) -> Any:
    """Return a function that updates the weights once at a given rate."""
    optimizer = torch.optim.AdamW(_groups(optim, net), lr=optim.lr, betas=(optim.momentum, 0.999))

    def update(rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()

    return update


def sgd(optim: config.Optim, net: nn.Module) -> Any:
    """Return SGD as MXNet computes it: its momentum holds rate x gradient, PyTorch's the gradient alone."""
    optimizer = torch.optim.SGD(_groups(optim, net), lr=1.0, momentum=optim.momentum)
    decays = [group["weight_decay"] for group in optimizer.param_groups]

    def update(rate: float) -> None:
        for group, decay in zip(optimizer.param_groups, decays):
            group["weight_decay"] = rate * decay
            for parameter in group["params"]:
                parameter.grad *= rate
        optimizer.step()

    return update


def _groups(optim: config.Optim, net: nn.Module) -> list[dict[str, Any]]:
    """Return parameter groups of which biases and norm parameters do not decay."""
    parameters = list(net.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": optim.weight_decay},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]


OPTIMIZERS = {"adamw": adamw, "sgd": sgd}


if __name__ == "__main__":
    main()
