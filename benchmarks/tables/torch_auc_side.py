"""PyTorch's side of the AUC: the same DeepFM with a dense table, from the same weights, by the same batches.

    python -m benchmarks.tables.torch_auc_side JOB.npz SCORES.npy

Writes its scores of the rows that were held out.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from benchmarks.tables.torch_side import DeepFm


def main() -> None:
    job = np.load(sys.argv[1])
    ids, clicked, val = (torch.from_numpy(job[name]) for name in ("ids", "clicked", "val"))
    net = DeepFm(len(job["rows"]), False, num_categories=ids.shape[1], num_numbers=0)
    with torch.no_grad():
        net.rows.weight.copy_(torch.from_numpy(job["rows"]))
        for place, layer in enumerate(each for each in net.deep if isinstance(each, torch.nn.Linear)):
            layer.weight.copy_(torch.from_numpy(job[f"weight{place}"]))
            layer.bias.copy_(torch.from_numpy(job[f"bias{place}"]))
    rate, batch = float(job["rate"]), int(job["batch"])
    optimizers = [
        torch.optim.Adagrad([net.rows.weight], lr=10 * rate),
        torch.optim.Adam(net.deep.parameters(), lr=rate),
    ]
    for order in torch.from_numpy(job["orders"]):
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(net(ids[chosen]), clicked[chosen])
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    with torch.no_grad():
        np.save(sys.argv[2], net(val).numpy())


if __name__ == "__main__":
    main()
