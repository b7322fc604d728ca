"""The flags that only some tasks heed; any other task refuses them, so that none is given in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping

from mxtrain import config
from mxtrain.config import Run
from mxtrain.core.errors import UsageError

if TYPE_CHECKING:
    from mxtrain.tasks.task import Task

# By their names in `config/schema.py`.
OF_PICTURES = frozenset(("image_size", "val_resize", "augment", "mixup", "cutmix", "normalize", "cache"))
OF_CLASSES = frozenset(("num_classes", "sampling", "label_smoothing"))
OF_TEACHERS = frozenset(("teacher", "distill_weight", "distill_temperature"))
ONLY_SOME_TASKS = OF_PICTURES | OF_CLASSES | OF_TEACHERS | {"model", "loss"}


def check(run: Run, task: type[Task], known: Mapping[str, type[Task]]) -> None:
    """Refuse the first flag that is not at its default and that `task` does not heed, with those of `known` that do."""
    given, default = config.to_flat(run), config.to_flat(Run())
    for name in given:
        if name in ONLY_SOME_TASKS - task.flags and given[name] != default[name]:
            heeding = [each for each, of_name in known.items() if name in of_name.flags]
            where = (
                f"goes with --task {' or '.join(heeding)}, not with" if heeding else "means nothing to --task"
            )
            raise UsageError(f"--{name.replace('_', '-')} {where} {run.model.task}; leave it out")
