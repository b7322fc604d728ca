"""A process of PyTorch's gloo all-reduce, in buckets as DistributedDataParallel lays them: RANK, SIZE, PORT."""

from __future__ import annotations

import sys

import torch
from torch import distributed

from benchmarks.comm.measure import expected, take_turns
from benchmarks.comm.resnet50 import shapes

BUCKET_BYTES = 25 * 1024 * 1024  # DistributedDataParallel's


def main(rank: int, size: int, port: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    gradients = [torch.ones(shape) for shape in shapes()]
    buckets = [(torch.empty(sum(g.numel() for g in bucket)), bucket) for bucket in divided(gradients)]

    def reduce() -> None:
        pending = []
        for flat, bucket in buckets:
            for view, gradient in zip(views(flat, bucket), bucket):
                view.copy_(gradient)
            pending.append(distributed.all_reduce(flat, async_op=True))
        for work, (flat, bucket) in zip(pending, buckets):
            work.wait()
            for view, gradient in zip(views(flat, bucket), bucket):
                gradient.copy_(view)

    def fill() -> None:
        for gradient in gradients:
            gradient.fill_(1)

    take_turns(fill, reduce, lambda: all(bool((each == expected(size)).all()) for each in gradients))
    distributed.destroy_process_group()


def divided(gradients: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Return whole arrays by bucket, the last array first, with a new bucket when one is full."""
    buckets: list[list[torch.Tensor]] = [[]]
    for gradient in reversed(gradients):
        if sum(held.nbytes for held in buckets[-1]) >= BUCKET_BYTES:
            buckets.append([])
        buckets[-1].append(gradient)
    return buckets


def views(flat: torch.Tensor, bucket: list[torch.Tensor]) -> list[torch.Tensor]:
    parts = flat.split([gradient.numel() for gradient in bucket])
    return [part.view_as(gradient) for part, gradient in zip(parts, bucket)]


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
