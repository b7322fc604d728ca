"""The memory and the speed of a run's real steps, with what else a run holds: a checkpoint's copy, an evaluation.

Runs in a process of its own (`trial.py`), which `trials.py` watches and ends where it takes too much.
"""

from __future__ import annotations

import resource
from typing import Any

from mxtrain.doctor.run.compute_rate import MANY_STEPS, WARM_UP_STEPS, Stepper, timed
from mxtrain.doctor.run.trial import Subject
from mxtrain.models.parameters import running_statistics, weights
from mxtrain.runtime import mx
from mxtrain.train.context import build_context
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.net.to_device import to_context

STEPS_BESIDE_A_COPY = 2


def measure(subject: Subject, seconds: float) -> dict[str, Any]:
    """Return the `rate` of steps in about `seconds`, and the most memory that this process had."""
    run, task = subject.run, subject.task
    parts = build_context(run, task)
    one_step = Stepper(subject, parts)
    with open_pipeline(run, subject.train, task, 0, MANY_STEPS) as pipeline:

        def step() -> int:
            return one_step(pipeline.batches(one_step.step), pipeline.release)

        rate = timed(step, seconds, WARM_UP_STEPS)
        held = [weights.copy_of(parts.net), parts.trainer.optimizer_state()]
        for _ in range(STEPS_BESIDE_A_COPY):
            step()
        del held
        for batch, context in zip(pipeline.batches(one_step.step), parts.contexts):
            arrays = {name: to_context(array, context) for name, array in batch.arrays.items()}
            parts.plain_forward(parts.net, arrays).losses.asnumpy()
    measured: dict[str, Any] = {
        "rate": rate,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "has_running_statistics": bool(running_statistics.parameters(parts.net)),
    }
    if parts.contexts[0].device_type == "gpu":
        left = [mx.context.gpu_memory_info(place.device_id) for place in parts.contexts]
        measured["gpu_bytes"] = [total - free for free, total in left]
    return measured
