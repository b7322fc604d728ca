"""Distillation: learning from a trained net, `--teacher`.

Owns loading that net. It is not part of what trains, and what a checkpoint keeps of it is a checksum
(`checkpoint/initial_weights.py`); what is learnt from it is the task's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from mxtrain.checkpoint import initial_weights, locations
from mxtrain.config import Run, program_objects
from mxtrain.core.errors import UsageError
from mxtrain.models import answers
from mxtrain.train.net import build_net

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Device


def teacher_net(run: Run, devices: Sequence[Device]) -> Block | None:
    """Return the run's teacher on every device, without gradients; None where the run has none."""
    if not run.model.teacher:
        return None
    found = initial_weights.checkpoint_at("--teacher", run.model.teacher)
    model: str = found.state["config"]["model"]
    if program_objects.is_object(model):
        raise UsageError(
            f"--teacher {run.model.teacher}: its net was an object of a Python program, which no file keeps; give one "
            "whose --model has a name, or is module:callable"
        )
    locations.make_importable(found, model, last=True)
    net = build_net.load_trained(found, devices, like=run)
    net.collect_params().setattr("grad_req", "null")
    answers.answer_by(net)
    return net
