"""A run of mxtrain again, in PyTorch: `torch_side.py RUN_FOLDER WEIGHTS.npz OUT`, with torch's Python.

From mxtrain come the config, the pictures in their order as the loader makes them, and the rate of each step; all of
that knows no mxnet. Net, gradients and optimizer are PyTorch's. Writes OUT/metrics.jsonl as mxtrain does.
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

from benchmarks.harness import commands
from benchmarks.learn.torch_nets import NETS
from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.data.augment.transforms import eval_transform, train_transform
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.loading import run_plan, sample_requests
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Batch, Loader, Request, loader_options
from mxtrain.data.records.record_sets import open_set


def main() -> None:
    theirs, weights, out = map(Path, sys.argv[1:])
    found = directory.newest(theirs / "checkpoints")
    assert found is not None
    run, num_classes = config.from_flat(found[1]["config"]), len(found[1]["description"]["class_names"])
    net = NETS[run.model.model](num_classes)
    load(net, dict(np.load(weights)))
    rates = [record["lr"] for record in commands.records(theirs, "train")]
    out.mkdir(parents=True)
    with (out / "metrics.jsonl").open("w") as metrics:
        for step, loss in enumerate(train(run, net, rates), 1):
            metrics.write(json.dumps({"kind": "train", "step": step, "loss": loss}) + "\n")
        metrics.write(
            json.dumps({"kind": "eval", "step": len(rates), "val_accuracy": accuracy(run, net)}) + "\n"
        )


def train(run: config.Run, net: nn.Module, rates: list[float]) -> Iterator[float]:
    """Yield the loss of each step after making it."""
    records = open_set(str(run.data.train))
    assembly = picture_assembly(
        *(
            records,
            train_transform(run.data.augment, run.data.image_size),
            run.data.image_size,
            run.optim.seed,
        )
    )
    update = OPTIMIZERS[run.optim.optimizer](run.optim, net)
    net.train()
    samples_of, plan = sample_requests.epoch_sampler(run, records), run_plan.of_run(run, len(records))
    requests = sample_requests.training_requests(samples_of, plan, range(len(rates)))
    with _open(run, assembly, requests) as loader:
        for step, batches in itertools.groupby(loader, key=lambda batch: batch.request.step):
            net.zero_grad()
            loss, num_samples = backward(net, loader, batches)
            for parameter in net.parameters():
                parameter.grad /= num_samples
            update(rates[step])
            yield loss / num_samples


def backward(net: nn.Module, loader: Loader, batches: Iterable[Batch]) -> tuple[float, int]:
    """Sum the gradients of a step's micro-batches; return their summed loss and number of samples."""
    total, num_samples = 0.0, 0
    for batch in batches:
        loss = nn.functional.cross_entropy(
            net(_tensor(batch.arrays["data"])), _tensor(batch.arrays["label"]).long(), reduction="sum"
        )
        loss.backward()
        total += loss.item()
        num_samples += len(batch)
        loader.release(batch)
    return total, num_samples


def accuracy(run: config.Run, net: nn.Module) -> float:
    """Return the accuracy on all held-out pictures."""
    records = open_set(str(run.data.val))
    assembly = picture_assembly(
        *(records, eval_transform(run.data.image_size, run.data.val_resize), run.data.image_size), seed=0
    )
    net.eval()
    with torch.no_grad(), _open(
        run, assembly, sample_requests.evaluation_requests(len(records), 64)
    ) as loader:
        correct = 0
        for batch in loader:
            correct += int(
                (net(_tensor(batch.arrays["data"])).argmax(1) == _tensor(batch.arrays["label"])).sum()
            )
            loader.release(batch)
    return correct / len(records)


def _open(run: config.Run, assembly: SampleAssembly, asked: Iterable[Request]) -> Loader:
    return Loader(assembly, iter(asked), loader_options(run.data))


def _tensor(array: Any) -> torch.Tensor:
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
