"""PyTorch's DataLoader with processes over a Dataset of JPEGs, which the caller's function decodes."""

from __future__ import annotations

import argparse
from typing import Callable

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from benchmarks.loader import protocol
from benchmarks.loader.contenders.reading import BATCH_SIZE, MEAN, STD, EndlessOrder, Payloads

Crop = Callable[[bytes, np.random.Generator], np.ndarray]


class Pictures(Dataset):
    """uint8 pixels (size, size, 3), or normalised float32 planes as torchvision's ToTensor and Normalize make them."""

    def __init__(self, rec: str, crop: Crop, as_float: bool):
        self._payloads = Payloads(rec)
        self._crop = crop
        self._as_float = as_float
        self._mean, self._std = (torch.tensor(of).view(3, 1, 1) for of in (MEAN, STD))
        self._rng: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self._payloads)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, float]:
        if self._rng is None:  # in the worker's process
            self._rng = np.random.default_rng(get_worker_info().seed)
        image = torch.from_numpy(self._crop(self._payloads[position], self._rng))
        if self._as_float:
            image = image.permute(2, 0, 1).contiguous().float().div_(255).sub_(self._mean).div_(self._std)
        return image, float(self._payloads.labels[position])


def run(crop: Crop) -> None:
    def deliver(options: argparse.Namespace) -> protocol.Batches:
        dataset = Pictures(options.rec, crop, options.batch == "float32")
        order = EndlessOrder(len(dataset))
        for images, _ in DataLoader(dataset, BATCH_SIZE, sampler=order, num_workers=options.workers):
            yield images

    protocol.run(deliver)
