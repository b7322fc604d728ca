"""PyTorch's process: `torch_side.py NET AMP FORM WEIGHTS.npz`, or `torch_side.py peak AMP`, with torch's Python.

A form is a layout of the arrays, by itself or with torch.compile.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.step import torch_nets, turns
from benchmarks.step.nets import NETS, Net, batch

MOMENTUM, WEIGHT_DECAY, BETAS = 0.9, 1e-4, (0.9, 0.999)  # mxtrain's defaults


def main() -> None:
    name, amp, *rest = sys.argv[1:]
    if name == "peak":
        turns.print_peak(*large_kernels(amp))
        return
    form, weights = rest
    net = NETS[name]
    module = torch_nets.build(net)
    load(module, dict(np.load(weights)))
    num_parameters = sum(parameter.numel() for parameter in module.parameters())
    turns.take_turns(steps_of(net, module, amp, form), num_parameters)


def steps_of(net: Net, module: nn.Module, amp: str, form: str) -> Callable[[], float]:
    """Return a function that makes one more step and returns its loss."""
    if net.ids:
        return steps_of_clicks(net, module, amp)
    data, label = (torch.from_numpy(array) for array in batch(net))
    label = label.long()
    data = data.long() if net.vocabulary else data
    if "channels_last" in form:
        module, data = (
            module.to(memory_format=torch.channels_last),
            data.to(memory_format=torch.channels_last),
        )
    optimizer = optimizer_of(net, module)

    def loss_of(data: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=amp == "bf16"):
            scores = module(data)
        return functional.cross_entropy(scores.float(), label)

    compute = torch.compile(loss_of) if "compiled" in form else loss_of

    def make_step() -> float:
        optimizer.zero_grad()
        loss = compute(data, label)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return make_step


def steps_of_clicks(net: Net, module: nn.Module, amp: str) -> Callable[[], float]:
    """Return such a function for a net of clicks: rows of its table have sparse gradients, and move by Adagrad."""
    (ids, numbers), clicked = batch(net)
    data, label = (torch.from_numpy(ids), torch.from_numpy(numbers)), torch.from_numpy(clicked)
    rows = module.rows.weight
    others = [each for each in module.parameters() if each is not rows]
    optimizers = [
        torch.optim.Adagrad([rows], lr=10 * net.rate),
        torch.optim.Adam(others, lr=net.rate, betas=BETAS, fused=True),
    ]

    def make_step() -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=amp == "bf16"):
            scores = module(*data)
        loss = functional.binary_cross_entropy_with_logits(scores.float(), label)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return float(loss.detach())

    return make_step


def optimizer_of(net: Net, module: nn.Module) -> Any:
    """Return PyTorch's fastest optimizer that updates as mxtrain's; biases and norms do not decay."""
    parameters = list(module.named_parameters())
    matrices = [each for name, each in parameters if each.ndim > 1]
    others = [each for name, each in parameters if each.ndim == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    if net.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=net.rate, betas=BETAS, fused=True)
    return torch.optim.SGD(groups, lr=net.rate, momentum=MOMENTUM, fused=True)


def load(module: nn.Module, arrays: dict[str, Any]) -> None:
    """Load weights by position: both nets have their arrays in the same order."""
    state = {name: array for name, array in module.state_dict().items() if "num_batches_tracked" not in name}
    shapes = [tuple(array.shape) for array in state.values()]
    assert shapes == [array.shape for array in arrays.values()], f"{list(zip(state, shapes))}, {list(arrays)}"
    for theirs, ours in zip(state.values(), arrays.values()):
        theirs.copy_(torch.from_numpy(ours))


def large_kernels(amp: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return a product of large matrices and a large convolution."""

    def typed(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(torch.float32 if amp == "off" else torch.bfloat16)

    left, right = typed(turns.MATRIX, turns.MATRIX), typed(turns.MATRIX, turns.MATRIX)
    images = typed(turns.IMAGES, turns.CHANNELS, turns.SIDE, turns.SIDE).to(memory_format=torch.channels_last)
    kernels = typed(turns.CHANNELS, turns.CHANNELS, 3, 3).to(memory_format=torch.channels_last)
    return lambda: left @ right, lambda: functional.conv2d(images, kernels, padding=1)


if __name__ == "__main__":
    main()
