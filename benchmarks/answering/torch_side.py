"""PyTorch's process, with its Python: `torch_side.py NET BATCH FORM WEIGHTS.npz`."""

from __future__ import annotations

import sys

import numpy as np
import torch

from benchmarks.step import torch_nets, turns
from benchmarks.step.nets import NETS, batch
from benchmarks.step.torch_side import load


def main() -> None:
    name, batch_size, form, path = sys.argv[1:]
    net = NETS[name]._replace(batch_size=int(batch_size))
    module = torch_nets.build(net).eval()
    load(module, dict(np.load(path)))
    data = torch.from_numpy(batch(net)[0])
    data = data.long() if net.vocabulary else data
    if "channels_last" in form and not net.vocabulary:
        module = module.to(memory_format=torch.channels_last)
        data = data.to(memory_format=torch.channels_last)
    if "frozen" in form:  # weights are constants, and norms a part of convolutions
        import torch._inductor.config as compiler

        compiler.freezing = True
    compute = torch.compile(module) if "compiled" in form else module

    def answer() -> float:
        with torch.inference_mode():
            return float(compute(data).abs().mean())

    turns.take_turns(answer, 0)


if __name__ == "__main__":
    main()
