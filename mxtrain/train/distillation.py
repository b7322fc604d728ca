"""Distillation: learning from a trained net, `--teacher`.

The teacher sees the same pictures, mixed or not, on the same device, in inference mode; it is not part of what trains,
and what a checkpoint keeps of it is a checksum (`checkpoint/initial_weights.py`).
"""

from __future__ import annotations

from typing import Any, Sequence

from mxtrain.checkpoint import initial_weights, locations
from mxtrain.config import Run
from mxtrain.models import losses
from mxtrain.runtime import mx
from mxtrain.train import build_net


class Teacher:
    """The trained net, and the loss that measures the distance to it."""

    def __init__(self, net: Any, weight: float, temperature: float):
        self.net, self.weight, self.temperature = net, weight, temperature

    def add_loss(self, losses_of_labels: Any, output: Any, data: Any) -> Any:
        """Return every sample's loss of labels and of distillation, weighted; called while autograd records."""
        with mx.autograd.pause(train_mode=False):
            taught = self.net(data).astype("float32", copy=False)
        apart = losses.distillation(output, taught, self.temperature)
        return (1 - self.weight) * losses_of_labels + self.weight * apart


def build_teacher(run: Run, places: Sequence[Any]) -> Teacher | None:
    """Return the run's teacher on every device, without gradients; None where the run has none."""
    if not run.model.teacher:
        return None
    found = initial_weights.checkpoint_at("--teacher", run.model.teacher)
    locations.make_importable(found, found.state["config"]["model"], last=True)
    net = build_net.load_trained(found, places, like=run)
    net.collect_params().setattr("grad_req", "null")
    return Teacher(net, run.optim.distill_weight, run.optim.distill_temperature)
