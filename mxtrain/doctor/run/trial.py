"""A process that does one measurement of a run, and writes what it found as JSON to its standard output.

`trials.py` starts it, with the measurement and the run on its standard input. Owns opening the run's data, once the
process that started it has refused what is wrong; what is measured is in the modules that MEASUREMENTS names.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.doctor")

import contextlib
import importlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any, ContextManager

from mxtrain import config
from mxtrain.config import Run, batch_plan
from mxtrain.core.die_with_parent import die_with_parent
from mxtrain.core.errors import one_line
from mxtrain.tasks import registry as tasks
from mxtrain.train import job as jobs

# The functions named `measure` of these modules; the second word says whether they compute with mxnet.
MEASUREMENTS = {
    "data": ("mxtrain.doctor.run.data_rate", False),
    "compute": ("mxtrain.doctor.run.compute_rate", True),
    "rate": ("mxtrain.doctor.run.rate_range", True),
    "gradients": ("mxtrain.doctor.net.gradient_check", True),
    "overfit": ("mxtrain.doctor.net.one_batch", True),
    "memory": ("mxtrain.doctor.run.memory_trial", True),
    "ways": ("mxtrain.doctor.run.memory_ways", True),
}
OUT_OF_MEMORY = ("out of memory", "bad_alloc", "failed to allocate", "memory allocation failed", "cudamalloc")


def main() -> None:
    """Do the measurement that standard input asks for. What the user's code prints goes to standard error."""
    die_with_parent()
    with contextlib.suppress(OSError):  # if memory runs out for good, this process goes and no other
        Path("/proc/self/oom_score_adj").write_text("1000")
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    request = json.load(sys.stdin)
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)
        answer.write(json.dumps(_measure(request)) + "\n")


def _measure(request: dict[str, Any]) -> dict[str, Any]:
    from mxtrain import runtime
    from mxtrain.train.open_data import open_source

    whole_run = config.from_flat(request["run"])
    runtime.set_shares(request["local_workers"], whole_run.layout.threads or None)
    train = open_source("--train", whole_run.data.train or "", whole_run)
    module, needs_mxnet = MEASUREMENTS[request["measurement"]]
    if needs_mxnet:
        runtime.load(request["local_workers"], whole_run.layout.threads or None)
    job = jobs.of_data(tasks.of_description(of_one_worker(whole_run), request["description"]), train)
    try:
        with _compiling(job.run) if needs_mxnet else contextlib.nullcontext():
            measured: dict[str, Any] = importlib.import_module(module).measure(job, **request["options"])
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return {"out_of_memory": str(error).strip().splitlines()[-1:]}
    return measured


def _compiling(run: Run) -> ContextManager[None]:
    from mxtrain.train.net import build_net

    return build_net.compiling(run.model.amp)


def of_one_worker(run: Run) -> Run:
    """Return the run that computes what the first worker of `run` does in a step, without the others."""
    from dataclasses import replace

    plan = batch_plan.of_run(run)
    num_own = plan.shares()[0]
    optim = replace(
        run.optim,
        batch_size=min(run.optim.batch_size, plan.micro_batch * num_own),
        micro_batch=min(plan.micro_batch, run.optim.batch_size),
        accumulate=0,
        compress="none",
        average=0,  # no step is among a run's last ones
    )
    return replace(
        run, optim=optim, layout=replace(run.layout, kvstore="device", num_workers=1, min_workers=0)
    )


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error is NumPy's, MXNet's or CUDA's way of saying that memory is used up."""
    return isinstance(error, MemoryError) or any(word in str(error).lower() for word in OUT_OF_MEMORY)


if __name__ == "__main__":
    raise SystemExit(one_line("mxtrain.doctor", main))
