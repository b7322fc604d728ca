"""The flags that only some tasks heed; any other task refuses them, so that none is given in vain.

So it is with nets and losses, where they go by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Mapping

from mxtrain import config
from mxtrain.config import Run, schema
from mxtrain.config.components import losses, nets
from mxtrain.core.errors import UsageError

if TYPE_CHECKING:
    from mxtrain.tasks.task import Task

# By their names in `config/sections/`.
OF_PICTURES = frozenset(
    (
        *("image_size", "channels", "val_resize", "augment", "mixup", "cutmix"),
        *("mean", "deviation", "normalize", "cache"),
    )
)
OF_PIXELS = frozenset(("aux_weight",))
OF_CLASSES = frozenset(("num_classes", "sampling", "label_smoothing", "class_weights"))
OF_TEACHERS = frozenset(("teacher", "distill_weight", "distill_temperature"))
OF_CHUNKS = frozenset(("head_chunk", "head_classes"))
OF_TEXT = frozenset(("window",))
OF_TABLES = frozenset(("target", "inputs", "exclude", "categories", "missing", "log_columns"))
OF_IDS = frozenset(
    ("lists", "list_separator", "list_length", "column_names", "shared_embedding", "negatives")
)
OF_WEIGHTS = frozenset(("sample_weight",))
ONLY_SOME_TASKS = (
    OF_PICTURES
    | OF_CLASSES
    | OF_PIXELS
    | OF_TEACHERS
    | OF_CHUNKS
    | OF_TEXT
    | OF_TABLES
    | OF_IDS
    | OF_WEIGHTS
    | {"model", "loss"}
)


def check(run: Run, task: type[Task], known: Mapping[str, Callable[[], type[Task]]]) -> None:
    """Refuse the first flag that is set, and that `task` does not heed, with those of `known` that do.

    These are imported, by the functions of `known`, only for the message.
    """
    meant = schema.changed(run) | schema.requested(run)
    for name in config.to_flat(run):
        if name in meant and name in ONLY_SOME_TASKS - task.flags:
            _refuse(run, name, "", known, lambda each, name=name: name in each.flags)  # type: ignore[misc]
    net, loss = nets.parse(run.model.model).name, losses.parse(run.model.loss).name
    if "model" in task.flags and net in nets.NETS and net not in task.nets:
        _refuse(run, "model", f" {net}", known, lambda each: net in each.nets)
    if "loss" in task.flags and loss in losses.LOSSES and loss not in task.losses:
        _refuse(run, "loss", f" {loss}", known, lambda each: loss in each.losses)


def refuse_of_classes(run: Run, why: str) -> None:
    """Refuse flags of classes, whose defaults ask for nothing, where the data has none; `why` says what it has."""
    for name in sorted(OF_CLASSES & schema.changed(run)):
        raise UsageError(f"{schema.flag_of(name)} is for classes, and {why}; leave it out")


def _refuse(
    run: Run,
    name: str,
    value: str,
    known: Mapping[str, Callable[[], type[Task]]],
    heeds: Callable[[type[Task]], bool],
) -> None:
    heeding = [each for each, load in known.items() if heeds(load())]
    where = f"goes with --task {' or '.join(heeding)}, not with" if heeding else "means nothing to --task"
    raise UsageError(f"{schema.flag_of(name)}{value} {where} {run.model.task}; leave it out")
