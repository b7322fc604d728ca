"""Parts that are tried in each environment of `benchmarks.pythons`: one in a process, outside of any checkout.

    python parts.py PART

Imports what is installed and nothing of the benchmarks, as it runs where they cannot be imported.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Callable

PACK_SECONDS = 120


def import_through_the_door() -> None:
    from mxtrain.runtime import gluoncv, mx

    assert mx.__version__ == "1.9.1"
    assert gluoncv.model_zoo.get_model_list()


def train_a_step() -> None:
    from mxtrain.runtime import mx

    net = mx.gluon.nn.HybridSequential()
    net.add(
        mx.gluon.nn.Conv2D(8, 3),
        mx.gluon.nn.BatchNorm(),
        mx.gluon.nn.Activation("relu"),
        mx.gluon.nn.Dense(2),
    )
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    losses = _train(mx, net, mx.nd.random.uniform(shape=(16, 3, 16, 16)), mx.nd.arange(16) % 2, num_steps=20)
    assert losses[-1] < losses[0] / 2, losses


def train_a_gluoncv_model() -> None:
    from mxtrain.runtime import gluoncv, mx

    net = gluoncv.model_zoo.get_model("resnet18_v1b", classes=2)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    losses = _train(mx, net, mx.nd.random.uniform(shape=(4, 3, 64, 64)), mx.nd.arange(4) % 2, num_steps=10)
    assert losses[-1] < losses[0], losses


def _train(mx, net, data, labels, num_steps: int) -> list[float]:
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    losses = []
    for _ in range(num_steps):
        with mx.autograd.record():
            loss = loss_of(net(data), labels)
        loss.backward()
        trainer.step(len(data))
        losses.append(loss.mean().asscalar().item())
    return losses


def load_with_gluon(threads: bool) -> None:
    import numpy as np

    from mxtrain.runtime import mx

    samples = np.arange(96, dtype=np.float32).reshape(24, 4)
    dataset = mx.gluon.data.ArrayDataset(samples, np.arange(24))
    loader = mx.gluon.data.DataLoader(dataset, batch_size=5, num_workers=2, thread_pool=threads)
    batches = [data.asnumpy() for data, _ in loader]
    np.testing.assert_array_equal(np.concatenate(batches), samples)


def load_with_ours() -> None:
    """Pack pictures and load them with one thread, two, and two processes: the batches are the same."""
    import numpy as np

    from mxtrain.core.opencv import cv2
    from mxtrain.data.augment.transforms import train_transform
    from mxtrain.data.image_fields import picture_assembly
    from mxtrain.data.loading import order
    from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
    from mxtrain.data.records.record_file import open_records

    images = Path("images")
    for number in range(24):
        (images / str(number % 2)).mkdir(parents=True, exist_ok=True)
        picture = np.random.default_rng(number).integers(0, 255, (40, 48, 3), np.uint8)
        cv2.imwrite(str(images / str(number % 2) / f"{number}.jpg"), picture)
    pack = [sys.executable, "-m", "im2rec_wrapper", "pack", str(images), "data.rec"]
    subprocess.run(pack, check=True, timeout=PACK_SECONDS)
    assembly = picture_assembly(
        open_records("data.rec"), train_transform("resized_crop+flip", 32), 32, seed=1
    )
    seen = []
    for options in (
        LoaderOptions("threads", "1"),
        LoaderOptions("threads", "2"),
        LoaderOptions("processes", "2"),
    ):
        epoch = order.epoch_order(len(assembly.records), seed=1, epoch=0)
        requests = [Request(step, 0, 0, order.step_samples(epoch, step, 8)) for step in range(3)]
        with Loader(assembly, requests, options) as loader:
            seen.append(np.concatenate([batch.arrays["data"].copy() for batch in loader]))
    assert seen[0].shape == (24, 3, 32, 32)
    for others in seen[1:]:
        np.testing.assert_array_equal(others, seen[0])


# In the order of the table's columns.
PARTS: dict[str, tuple[str, Callable[[], None]]] = {
    "door": ("door", import_through_the_door),
    "step": ("training step", train_a_step),
    "model": ("GluonCV model", train_a_gluoncv_model),
    "processes": ("DataLoader, processes", lambda: load_with_gluon(threads=False)),
    "threads": ("DataLoader, threads", lambda: load_with_gluon(threads=True)),
    "loader": ("our loader", load_with_ours),
}


if __name__ == "__main__":
    PARTS[sys.argv[1]][1]()
