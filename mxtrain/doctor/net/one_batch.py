"""Training on one batch again and again: a net and a loss that are right learn it by heart.

Runs in a process of its own (`doctor/run/trial.py`). Rates are constant; what helps training, but keeps a loss from
zero, is off (the flags come from `net_doctor.py`).
"""

from __future__ import annotations

import math
import time
from typing import Any

from mxtrain.doctor.run.compute_rate import copies
from mxtrain.models.parameters import weights
from mxtrain.optim import precision
from mxtrain.train.context import build_context
from mxtrain.train.held import choice
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.job import TrainingJob

LEARNT = 0.1  # of the first loss that may be left


def measure(job: TrainingJob, rate: float, num_steps: int, seconds: float) -> dict[str, Any]:
    """Return the `losses` of at most `num_steps`, in about `seconds`, and the parameters that no gradient reached."""
    context = build_context(job)
    scale = precision.initial_loss_scale(job.run.model.amp, job.run.model.loss_scale)
    named = {
        name: parameter
        for name, parameter in weights.named_parameters(context.net).items()
        if parameter.grad_req != "null"
    }
    left = set(named)
    losses: list[float] = []
    with open_pipeline(job, range(1)) as pipeline:
        batch = list(pipeline.batches(0))
    started = time.monotonic()
    while len(losses) < num_steps and (len(losses) < 2 or time.monotonic() - started < seconds):
        result = choice.step_of(context)(context, copies(batch), lambda each: None, len(losses), rate, scale)
        scale = result.scale
        if not math.isfinite(result.loss):
            break
        losses.append(result.loss)
        left -= {name for name in left if named[name].list_grad()[0].norm().asscalar()}
        if abs(result.loss) <= LEARNT * abs(losses[0]):
            break
    return {
        **{"rate": rate, "losses": losses, "num_samples": sum(map(len, batch))},
        "has_learnt": bool(losses) and abs(losses[-1]) <= LEARNT * abs(losses[0]),
        "no_gradient": [name for name in named if name in left],
    }
