"""Three nets small enough for one core, with ever more bytes to sum for a second of computing."""

from __future__ import annotations

from typing import NamedTuple


class Net(NamedTuple):
    model: str
    image_size: int
    batch_of_worker: int

    def flags(self, num_workers: int) -> list[str]:
        """Return the flags of a run whose batch grows with its workers, as in the published figures."""
        return [
            *("--train", "none.rec", "--model", self.model, "--image-size", str(self.image_size)),
            *("--batch-size", str(self.batch_of_worker * num_workers)),
            *("--micro-batch", str(self.batch_of_worker)),
        ]


NETS = {
    "resnet18": Net("resnet18_v1b", 96, 32),
    "resnet50": Net("resnet50_v1b", 96, 16),
    # 61 million weights, 58 of them in three dense layers.
    "alexnet": Net("alexnet", 224, 16),
    "small": Net("small_cnn", 32, 8),  # for tests
}
MEASURED = ("resnet18", "resnet50", "alexnet")
