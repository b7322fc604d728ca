"""The bytes of each way to train a run, by arithmetic: nothing is built, and no step is made.

Runs in a process of its own (`trial.py`), as mxnet describes the net.
"""

from __future__ import annotations

from typing import Any, Mapping

from mxtrain import config
from mxtrain.core.system import machine
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import described

UNKNOWN = "not known before the net is built: --dry-run builds it"


def measure(job: TrainingJob, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `lines` of the table; `run` are the flags of the whole run, whose first worker's part `job` is."""
    lines = described.lines(job, config.from_flat(dict(run)), machine.available_memory())
    return {"lines": lines or [UNKNOWN]}
