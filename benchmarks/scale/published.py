"""MXNet's own table of 1 to 256 GPUs, compared with the model.

The table is in example/image-classification/README.md of MXNet 0.9 to 1.x: images a second of sixteen p2.16xlarge, each
with 16 GPUs (half K80s), synchronous, the batch of a GPU fixed.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.harness.tables import markdown
from benchmarks.scale.model import Hosts, Work, step

GPUS_OF_MACHINE = 16


class Published(NamedTuple):
    net: str
    batch_of_gpu: int
    megabytes: float
    images_per_second: dict[int, float]  # by number of GPUs

    def efficiency(self, num_gpus: int, base: int = 1) -> float:
        rates = self.images_per_second
        return rates[num_gpus] / rates[base] * base / num_gpus


TABLE = [
    Published(
        "alexnet",
        512,
        203,
        {1: 457.07, 16: 4244.18, 32: 7945.57, 64: 15840.52, 128: 31334.88, 256: 61938.36},
    ),
    Published(
        "inception-v3", 32, 95, {1: 30.4, 16: 447.61, 32: 882.57, 64: 1761.24, 128: 3416.2, 256: 6660.98}
    ),
    Published(
        "resnet-152", 32, 240, {1: 20.08, 16: 298.03, 32: 595.53, 64: 1179.86, 128: 2333.47, 256: 4630.42}
    ),
]

# Assumed, none of it is in the table: the card of a p2.16xlarge (20 Gbit/s), a server beside each worker as MXNet's
# launch.py starts them, servers that add as fast as the network brings, a backward pass of two thirds of a step, and
# steps whose times have a standard deviation of 1%.
HOSTS = Hosts(network=20e9 / 8, beside_workers=True)
BACKWARD, JITTER = 2 / 3, 0.01
BUCKET_MEGABYTES = 4


class Bounds(NamedTuple):
    """Efficiencies if no communication is hidden behind the backward pass, and if as much as possible is."""

    least: float
    most: float


def bounds(published: Published, num_gpus: int) -> Bounds:
    """Return what the model predicts from the published rate of one machine, relative to one GPU as published."""
    num_machines = num_gpus // GPUS_OF_MACHINE
    images = published.batch_of_gpu * GPUS_OF_MACHINE
    seconds = images / published.images_per_second[GPUS_OF_MACHINE]
    num_buckets = max(1, round(published.megabytes / BUCKET_MEGABYTES))
    inside = published.efficiency(GPUS_OF_MACHINE)
    found = [
        step(
            Work(published.megabytes * 1e6, seconds, hideable, JITTER, num_buckets),
            HOSTS,
            *[num_machines] * 2,
        )
        for hideable in (0.0, BACKWARD)
    ]
    return Bounds(*(inside * each.efficiency for each in found))


def render() -> str:
    rows = []
    for published in TABLE:
        inside = published.efficiency(GPUS_OF_MACHINE)
        for num_gpus in (32, 64, 128, 256):
            shares = (published.efficiency(num_gpus), inside, *bounds(published, num_gpus))
            rows.append([f"{published.net}, {num_gpus}", *(f"{share:.1%}" for share in shares)])
    heads = ("published", "of that, inside a machine", "the model, nothing hidden", "all hidden that can be")
    return markdown(["net, GPUs", *heads], rows, "lr")
