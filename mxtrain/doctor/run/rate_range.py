"""The learning-rate range test: a short training whose rate grows from next to nothing until the loss diverges.

After Smith, "Cyclical Learning Rates for Training Neural Networks" (2017). Owns the steps, in a process of its own
(`trial.py`); what follows from their losses is `rate_choice.py`'s. The seed decides everything: the same command finds
the same losses.
"""

from __future__ import annotations

import math
from typing import Any

from mxtrain.doctor.run import rate_choice
from mxtrain.optim import precision
from mxtrain.train.context import build_context
from mxtrain.train.held import choice
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.job import TrainingJob


def measure(job: TrainingJob, num_steps: int) -> dict[str, Any]:
    """Return the `rates` that were tried and their `losses`, until the loss diverges."""
    context = build_context(job)
    scale = precision.initial_loss_scale(job.run.model.amp, job.run.model.loss_scale)
    rates = rate_choice.rates(num_steps)
    losses: list[float] = []
    with open_pipeline(job, range(num_steps)) as pipeline:
        for step, rate in enumerate(rates):
            result = choice.step_of(context)(
                context, pipeline.batches(step), pipeline.release, step, rate, scale
            )
            scale = result.scale
            losses.append(result.loss)
            if not math.isfinite(result.loss) or rate_choice.has_diverged(losses):
                break
    finite = [loss for loss in losses if math.isfinite(loss)]
    return {"rates": rates[: len(finite)], "losses": finite, "diverged": len(losses) < num_steps}
