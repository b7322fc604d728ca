"""A process of PyTorch's FSDP2 that trains a GPT, a layer at a time: RANK, SIZE, PORT, and the job as JSON.

Weights, gradients and adam's state are cut among the processes, over gloo; a layer's weights are together while it is
computed, and go afterwards. Each layer's activations are computed again in the backward pass.
A process takes all its windows of a step at once. Prints its most memory (VmHWM, bytes) and the seconds of each step.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from benchmarks.learn.torch_gpt import Gpt

SPREAD = 0.02  # of first weights


def main(rank: int, size: int, port: int, job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    net = _sharded(job["vocabulary"], job["window"], job["net"])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(rank)
    seconds = []
    for _ in range(job["steps"]):
        shape = (job["windows"], job["window"] + 1)
        tokens = torch.randint(job["vocabulary"] - 1, shape, generator=generator)
        start = time.monotonic()
        scores = net(tokens[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.monotonic() - start)
    print(json.dumps({"bytes": _most_bytes(), "seconds": seconds, "loss": loss.item()}))
    distributed.destroy_process_group()


def _sharded(vocabulary: int, window: int, numbers: dict[str, int]) -> Gpt:
    """Return a net of which no process ever has all weights; a token that ends a document is the last one."""
    with torch.device("meta"):
        net = Gpt(vocabulary, window, vocabulary - 1, **numbers)
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for place, layer in enumerate(net.layers):
        net.layers[place] = checkpoint_wrapper(layer)
        fully_shard(net.layers[place], mesh=mesh)
    fully_shard(net, mesh=mesh)
    net.to_empty(device="cpu")
    with torch.no_grad():
        for name, weights in net.named_parameters():
            local = weights.to_local()
            if weights.ndim > 1:
                local.normal_(0, SPREAD)
            else:
                local.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
    return net


def _most_bytes() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status["VmHWM"].split()[0])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), json.loads(sys.argv[4]))
