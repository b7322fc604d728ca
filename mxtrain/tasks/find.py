"""Tasks by name: `--task NAME`, or `module:Class` for the user's own. Needs no mxnet."""

from __future__ import annotations

import os

from mxtrain import runtime
from mxtrain.cluster import environment
from mxtrain.config import Run, import_path
from mxtrain.core.errors import in_user_code
from mxtrain.data.records import Dataset
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.task import Description, Task

BY_NAME: dict[str, type[Task]] = {"classification": Classification}


def of_data(run: Run, train: Dataset, val: Dataset | None) -> Task:
    """Return the task of a run that begins, after its data is checked."""
    found = _class(run)
    with in_user_code(f"--task {run.model.task}"):
        return found(run, found.describe(run, train, val))


def of_description(run: Run, description: Description) -> Task:
    """Return the task of a run whose data is described already, in a checkpoint for instance."""
    return _class(run)(run, description)


def _class(run: Run) -> type[Task]:
    name = run.model.task
    if name in BY_NAME:
        return BY_NAME[name]
    runtime.set_shares(
        environment.workers_on_host(os.environ, run), run.layout.threads or None
    )  # see adr/0014
    found: type[Task] = import_path.load_callable("--task", name)
    return found
