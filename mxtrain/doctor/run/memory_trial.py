"""The memory and the speed of a run's real steps, with what else a run holds: a checkpoint's copy, an evaluation.

Runs in a process of its own (`trial.py`), which `trials.py` watches and ends where it takes too much.
"""

from __future__ import annotations

import resource
from typing import Any

from mxtrain.doctor.run.compute_rate import MANY_STEPS, WARM_UP_STEPS, Stepper, timed
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.runtime import mx
from mxtrain.train.context import build_context
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net
from mxtrain.train.net.to_device import to_device

STEPS_BESIDE_A_COPY = 2


def measure(job: TrainingJob, seconds: float) -> dict[str, Any]:
    """Return the `rate` of steps in about `seconds`, and the most memory that this process had."""
    context = build_context(job)
    one_step = Stepper(job, context)
    with open_pipeline(job, range(MANY_STEPS)) as pipeline:

        def step() -> int:
            return one_step(pipeline.batches(one_step.step), pipeline.release)

        rate = timed(step, seconds, WARM_UP_STEPS)
        held = [weights.copy_of(context.net), context.trainer.optimizer_state()]
        for _ in range(STEPS_BESIDE_A_COPY):
            step()
        del held
        with build_net.standing_still(context.net, context.run, context.task.objects):
            for batch, device in zip(pipeline.batches(one_step.step), context.devices):
                arrays = {name: to_device(array, device) for name, array in batch.arrays.items()}
                context.plain_forward(context.net, arrays).losses.asnumpy()
    measured: dict[str, Any] = {
        "rate": rate,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "has_running_statistics": bool(running_statistics.parameters(context.net)),
    }
    if context.devices[0].device_type == "gpu":
        left = [mx.context.gpu_memory_info(place.device_id) for place in context.devices]
        measured["gpu_bytes"] = [total - free for free, total in left]
    return measured
