"""PyTorch's side: the same DeepFM on the same clicks.

    python -m benchmarks.tables.torch_side JOB.json RANK

In one process with `EmbeddingBag(sparse=True)`, whose rows move by Adagrad. Of several ranks each computes its part of
a batch, and gloo sums the gradients of all rows of the table, which is dense then: over it there are no sparse sums of
`DistributedDataParallel`. Everything else moves by Adam. Prints a line of JSON: seconds and the loss of each step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.tables import clicks

WIDTH, HIDDEN, SCALE = 16, (256, 128), 0.01


class DeepFm(torch.nn.Module):
    """A weight and a vector for each id; weights, products of all pairs, and layers, added."""

    def __init__(
        self,
        num_ids: int,
        is_sparse: bool,
        num_categories: int = clicks.NUM_CATEGORIES,
        num_numbers: int = clicks.NUM_NUMBERS,
    ):
        super().__init__()
        self.rows = torch.nn.EmbeddingBag(num_ids, 1 + WIDTH, mode="sum", sparse=is_sparse)
        torch.nn.init.uniform_(self.rows.weight, -SCALE, SCALE)
        if num_numbers:
            self.wide = torch.nn.Linear(num_numbers, 1)
            self.of_numbers = torch.nn.Parameter(torch.empty(num_numbers, WIDTH).uniform_(-SCALE, SCALE))
        layers: list[Any] = []
        width = num_categories * WIDTH + num_numbers
        for hidden in HIDDEN:
            layers += [torch.nn.Linear(width, hidden), torch.nn.ReLU()]
            width = hidden
        self.deep = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))

    def forward(self, ids: Any, numbers: Any = None) -> Any:
        rows = self.rows(ids.reshape(-1, 1)).reshape(*ids.shape, 1 + WIDTH)
        weights, vectors = rows[..., :1].sum(dim=1), rows[..., 1:]
        fields, flat = vectors, vectors.flatten(1)
        if numbers is not None:
            weights = weights + self.wide(numbers)
            flat = torch.cat([flat, numbers], dim=1)
            fields = torch.cat([vectors, numbers[:, :, None] * self.of_numbers], dim=1)
        pairs = fields.sum(dim=1).square() - fields.square().sum(dim=1)
        return (weights + self.deep(flat) + 0.5 * pairs.sum(dim=1, keepdim=True)).squeeze(1)


def main() -> None:
    job, rank = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), int(sys.argv[2])
    torch.manual_seed(0)
    if job["threads"]:
        torch.set_num_threads(job["threads"])
    ranks, is_sparse = job["workers"], job["workers"] == 1
    net: Any = DeepFm(job["num_ids"], is_sparse)
    table = [net.rows.weight]
    others = [each for name, each in net.named_parameters() if name != "rows.weight"]
    trained = net
    if not is_sparse:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job["port"]))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
        trained = torch.nn.parallel.DistributedDataParallel(net)
    optimizers = [
        torch.optim.Adagrad(table, lr=10 * job["lr"]),
        torch.optim.Adam(others, lr=job["lr"], foreach=True),
    ]
    batch = job["batch_size"] // ranks
    made = clicks.made(job["batch_size"] * job["steps"], job["num_ids"])
    ids, numbers, clicked = (torch.from_numpy(each[rank * batch :]) for each in made[:3])
    seconds, losses = [], []
    for step in range(job["steps"]):
        begin = time.perf_counter()
        samples = slice(step * job["batch_size"], step * job["batch_size"] + batch)
        scores = trained(ids[samples], numbers[samples])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, clicked[samples])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()))
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "losses": losses}))


if __name__ == "__main__":
    main()
