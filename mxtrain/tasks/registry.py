"""Tasks by name: `--task NAME`, or `module:Class` for the user's own. Needs no mxnet."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from typing import Any, Callable, ContextManager, TypeVar

from mxtrain import runtime
from mxtrain.cluster import environment
from mxtrain.config import Run
from mxtrain.config.components import import_path
from mxtrain.config.components.tasks import TASKS
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import UsageError, as_user_code, in_user_code
from mxtrain.data.interfaces import Dataset
from mxtrain.data.user.streams import Stream
from mxtrain.tasks import task_flags
from mxtrain.tasks.task import Description, Task, TaskPrediction

Answer = TypeVar("Answer")  # of a function

logger = logging.getLogger(__name__)


def check_flags(run: Run, objects: ProgramObjects = NO_OBJECTS) -> None:
    """Refuse flags that the task of a run does not heed."""
    task_flags.check(run, class_of(run, objects), {name: task.load for name, task in TASKS.items()})


def of_data(run: Run, train: Dataset, val: Dataset | None, objects: ProgramObjects = NO_OBJECTS) -> Task:
    """Return the task of a run that begins, after its data is checked."""
    found = class_of(run, objects)
    seen = train.first() if found.looks_at and isinstance(train, Stream) else train
    with in_user_code(f"--task {run.model.task}"):
        description = found.describe(run, seen, val)
    return _made(found, run, description, objects)


def of_description(run: Run, description: Description, objects: ProgramObjects = NO_OBJECTS) -> Task:
    """Return the task of a run whose data is described already, in a checkpoint for instance."""
    return _made(class_of(run, objects), run, description, objects)


def _made(task_class: type[Task], run: Run, description: Description, objects: ProgramObjects) -> Task:
    """Return a task with the objects of a program, of which the constructor of a user's own need not know."""
    with in_user_code(f"--task {run.model.task}"):
        task = task_class(run, description)
    object.__setattr__(task, "objects", objects)  # tasks are frozen
    return task


def class_of(run: Run, objects: ProgramObjects = NO_OBJECTS) -> type[Task]:
    """Return the class of a run's task; the user's own module is imported, and may import mxnet (docs/adr/0014)."""
    name = run.model.task
    if name in TASKS:
        known: type[Task] = TASKS[name].load()
        return known
    share_cores(run)
    found: type[Task] = import_path.load_callable("--task", name, objects)
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise UsageError(f"--task {name}: is no task; give a class that inherits mxtrain.tasks.task.Task")
    return found


def share_cores(run: Run) -> None:
    """Set how many cores mxnet gets, before code of the user's that may import it (docs/adr/0014)."""
    runtime.set_shares(environment.workers_on_host(os.environ, run), run.layout.threads or None)


def prediction_of(task: Task) -> TaskPrediction:
    """Return the task as one that predicts; UsageError where it does not."""
    if isinstance(task, TaskPrediction):
        return task
    from mxtrain.tasks.lm import LanguageModel

    if isinstance(task, LanguageModel):
        raise UsageError("--task lm: a language model names nothing; give it a --prompt to write on")
    raise UsageError(
        f"--task {task.run.model.task}: does not say how it predicts; give it inputs_of, answer, shown and in_words"
    )


def is_built_in(task: Task) -> bool:
    """Return whether a task is mxtrain's, and not the user's."""
    return task.run.model.task in TASKS


def in_code_of(task: Task) -> ContextManager[None]:
    """Return a block that calls a task: failures in a user's own are reported with its flag."""
    return contextlib.nullcontext() if is_built_in(task) else in_user_code(f"--task {task.run.model.task}")


def named(task: Task, function: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return a function of the task's whose calls are in such blocks; it pickles if `function` does."""
    return function if is_built_in(task) else as_user_code(f"--task {task.run.model.task}", function)


def without_failures(task: Task, function: Callable[..., Answer], instead: Answer) -> Callable[..., Answer]:
    """Return a function of the task's that gives `instead` where a user's task fails in it; it pickles if that does.

    For what nobody has asked for: a class of the user's may inherit it, and make of its arrays something else.
    """
    return function if is_built_in(task) else functools.partial(_or_else, function, instead)


def _or_else(function: Callable[..., Answer], instead: Answer, *arguments: Any) -> Answer:
    try:
        return function(*arguments)
    except Exception:
        logger.debug("%s fails, and is left out", function, exc_info=True)
        return instead


def function_of(
    task: Task, method: Callable[..., Callable[..., Answer]], *arguments: Any
) -> Callable[..., Answer]:
    """Return the function that a method of the task gives, so named, as the method is itself."""
    return named(task, named(task, method)(*arguments))
