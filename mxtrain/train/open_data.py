"""Opens what `--train` and `--val` name: .rec files, tables and files of arrays, or the user's own.

That is a function which returns a Gluon Dataset or DataLoader or a stream, or an object that a Python program gave.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Callable, Literal, Sequence, Union, overload

from mxtrain.config import Run, program_objects, schema
from mxtrain.config.components import augmentations, import_path
from mxtrain.config.components import tasks as known_tasks
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import DataError, UsageError, in_user_code
from mxtrain.data.arrays import array_sets, columns, program_columns, table_selection, tables
from mxtrain.data.arrays.array_fields import Input
from mxtrain.data.arrays.array_sets import ArrayRecords
from mxtrain.data.ids import id_tables
from mxtrain.data.interfaces import Dataset, Records
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.sources.samples import Labels, open_samples
from mxtrain.data.storage import options
from mxtrain.data.user.streams import NUM_FIRST, Stream, is_stream
from mxtrain.data.user.user_datasets import UserBatches, UserDataset, is_data_loader
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task

ONLY_ARRAYS = (".npz", ".npy", ".parquet")  # in which no pictures are; other tables may list or hold some

Like = Union[Task, Dataset, None]


@overload
def open_source(
    flag: Literal["--val", "--mistakes"],
    source: str,
    run: Run,
    like: Like = None,
    objects: ProgramObjects = NO_OBJECTS,
) -> Records: ...


@overload
def open_source(
    flag: str, source: str, run: Run, like: Like = None, objects: ProgramObjects = NO_OBJECTS
) -> Dataset: ...


def open_source(
    flag: str, source: str, run: Run, like: Like = None, objects: ProgramObjects = NO_OBJECTS
) -> Dataset:
    """Return the samples, or the user's batches, that `flag` names as `source`.

    Columns of a table become numbers as in `like`, a task with a description or a training set, if it has such columns.
    Loads no mxnet by itself, but the module of a user's data set may (docs/adr/0014).
    """
    opened = _opened(flag, source, run, like, objects)
    if import_path.is_import_path(source) and not isinstance(opened, ArrayRecords):
        own: Dataset = opened
        return own
    task = tasks.class_of(run, objects)
    samples = task.samples_of(run, opened)
    if flag == "--train":
        return task.training_samples(run, samples)
    trained = functools.partial(_opened, "--train", run.data.train or "", run, samples, objects)
    return task.evaluation_samples(run, samples, trained)


def _opened(flag: str, source: str, run: Run, like: Like, objects: ProgramObjects) -> Any:
    """Return what `flag` names, with no samples that a task draws beside it."""
    if import_path.is_import_path(source):
        return _open_user_data(flag, source, run, like, objects)
    _refuse_epoch_steps(flag, source, run)
    suffix = Path(source).suffix.lower()
    if suffix == ".py":
        raise UsageError(
            f"{flag} {source}: is a Python program; give the function in it that returns the data, such as "
            f"{Path(source).stem}:data"
        )
    labels = labels_in(source, run)
    if labels is not None:
        try:
            return open_samples(source, labels, options.of_flags(run.data))
        except UsageError:
            if suffix not in tables.SUFFIXES:  # else it is no list of pictures, but a table
                raise
    if suffix not in tables.SUFFIXES:
        return open_set(source, options.of_flags(run.data))
    task = tasks.class_of(run, objects)
    if "target" not in task.flags:
        advice = "give --task arrays, or" if flag == "--train" else f"for --task {run.model.task}"
        raise UsageError(
            f"{flag} {source}: is a table or a file of arrays, not a .rec; {advice} pack the pictures or the text that "
            "it lists"
        )
    open_records = id_tables.open_records if "lists" in task.flags else tables.open_records
    return open_records(Path(source), table_selection.of_flags(run.data), _inputs_of(like))


def labels_in(source: str, run: Run) -> Labels | None:
    """Return the labels that a run's task needs of pictures or texts; None where it learns neither of such a file."""
    defaults = known_tasks.defaults_of(run.model.task)
    others = tables.SUFFIXES if defaults.text_type else ONLY_ARRAYS
    has_samples = defaults.text_type or defaults.samples == known_tasks.PICTURES
    if not has_samples or Path(source).suffix.lower() in others:
        return None
    are_several = run.model.task in ("multilabel", "regression")
    return Labels(defaults.has_boxes, defaults.has_masks, are_several, defaults.text_type)


def _inputs_of(like: Like) -> Sequence[Input]:
    """Return the arrays that a task, or a training set, has already; none where it has none."""
    if isinstance(like, Task):
        inputs: Sequence[Input] = getattr(like, "inputs", ())
        return inputs
    return array_sets.inputs_known(like) if like is not None else ()


def _open_columns(flag: str, path: str, columns: Any, run: Run, task: type[Task], like: Like) -> ArrayRecords:
    """Return the samples of a table that a program has in memory."""
    _refuse_epoch_steps(flag, path, run)
    found = program_columns.columns_of(columns, f"{flag} {path}")
    selection, inputs = table_selection.of_flags(run.data), _inputs_of(like)
    if "lists" in task.flags:
        return id_tables.records_of(id_tables.of_columns(Path(path), found, selection, inputs))
    return tables.records_of(tables.of_columns(Path(path), found, selection, inputs))


def _is_table(data: Any, run: Run, task: type[Task]) -> bool:
    """Return whether data of a program are columns of which flags choose, and not samples as they are."""
    if "target" not in task.flags or not program_columns.holds_columns(data):
        return False
    has_flags = table_selection.of_flags(run.data) != table_selection.NO_SELECTION
    return "lists" in task.flags or program_columns.is_frame(data) or has_flags


def _open_user_data(flag: str, path: str, run: Run, like: Like, objects: ProgramObjects) -> Dataset:
    """Call the function and return its data as records or batches."""
    tasks.share_cores(run)
    task = tasks.class_of(run, objects)
    with in_user_code(f"{flag} {path}"):
        make = _made_by(flag, path, run, task, objects)
        made = make()
        if _is_table(made, run, task):
            return _open_columns(flag, path, made, run, task, like)
        return _checked(flag, path, made, make, run, task)


def _made_by(flag: str, path: str, run: Run, task: type[Task], objects: ProgramObjects) -> Callable[[], Any]:
    """Return the function that gives the data: the user's own, or one that gives the object of a Python program."""
    if not program_objects.is_object(path):
        function: Callable[[], Any] = import_path.load_callable(flag, path)
        return function
    found = objects.require(flag, path)
    if _is_table(found, run, task):
        return lambda: found
    found = columns.dataset_of(found, f"{flag} {path}")
    is_function = callable(found) and not hasattr(found, "__iter__") and not hasattr(found, "__getitem__")
    return found if is_function else lambda: found


def _checked(
    flag: str, path: str, user_data: Any, make: Callable[[], Any], run: Run, task: type[Task]
) -> Dataset:
    """Return what `make` gave as records or batches; UsageError or DataError where no run can be made of it."""
    stays = is_stream(user_data) or is_data_loader(user_data)
    if stays and run.data.loader == "processes":
        raise UsageError(
            f"{flag} {path}: returned {type(user_data).__name__}, which stays in this process; leave --loader "
            "processes out"
        )
    if is_stream(user_data):
        return _stream(flag, path, user_data, make, run, task)
    _refuse_epoch_steps(flag, path, run)
    if is_data_loader(user_data):
        return _batches(flag, path, user_data, run, task)
    if not (hasattr(user_data, "__getitem__") and hasattr(user_data, "__len__")):
        raise UsageError(
            f"{flag} {path}: returned {type(user_data).__name__}; return a Dataset, a DataLoader or a generator"
        )
    if not len(user_data):
        raise DataError(f"{flag} {path}: returned a Dataset of no samples; there is nothing to learn from")
    if run.data.cache == "disk":
        raise UsageError(f"{flag} {path}: cannot tell when its pictures change; give --cache ram or none")
    return task.samples_of(run, UserDataset(path, user_data, flag, task.record_of))


def _batches(flag: str, path: str, user_data: Any, run: Run, task: type[Task]) -> UserBatches:
    """Return the batches of a DataLoader; refuse flags and data that do not go with one."""
    if flag != "--train":
        raise UsageError(
            f"{flag} {path}: returned a DataLoader; return a Dataset, so that each sample counts once"
        )
    if not len(user_data):
        raise DataError(
            f"{flag} {path}: returned a DataLoader of no batches; give it at least --batch-size "
            f"{run.optim.batch_size} samples, or lower that"
        )
    if run.layout.num_workers > 1:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, from which every worker would draw by itself; return a Dataset"
        )
    without_effect = _without_effect(run)
    if without_effect:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, which knows no {' and '.join(without_effect)}; leave that out"
        )
    if "num_classes" in task.flags and not run.data.num_classes:
        raise UsageError(
            f"{flag} {path}: returned a DataLoader, whose labels are not known; give --num-classes"
        )
    return UserBatches(path, user_data, run.optim.batch_size)


def _stream(flag: str, path: str, first: Any, make: Callable[[], Any], run: Run, task: type[Task]) -> Stream:
    """Return a stream that begins with what was made already; refuse flags that do not go with one."""
    described = f"{flag} {path}: is a stream, {type(first).__name__} without len()"
    if flag != "--train":
        raise UsageError(f"{described}; give a Dataset, so that each sample counts once")
    if not run.optim.epoch_steps:
        raise UsageError(f"{described}; give --epoch-steps, the number of updates that are an epoch")
    changed = schema.changed(run)
    for name in ("sampling", "cache", "skip_bad", "overfit"):
        if name in changed:
            raise UsageError(f"{described}, which knows no {schema.flag_of(name)}; leave that out")
    if "num_classes" in task.flags and not task.looks_at and not run.data.num_classes:
        raise UsageError(f"{described}, whose labels are not known; give --num-classes")
    begun = [first]  # the function is not called twice before anything is read twice
    batch_size = run.optim.batch_size
    num_samples = run.optim.epoch_steps * batch_size
    return Stream(
        path,
        lambda: begun.pop() if begun else make(),
        task.record_of,
        num_samples,
        batch_size,
        flag,
        max(NUM_FIRST, min(task.looks_at, num_samples)),
    )


def _refuse_epoch_steps(flag: str, path: str, run: Run) -> None:
    if flag == "--train" and run.optim.epoch_steps:
        raise UsageError(
            f"--epoch-steps {run.optim.epoch_steps}: {flag} {path} has a length, and an epoch is one pass; leave it out"
        )


def _without_effect(run: Run) -> list[str]:
    """Return the flags that change nothing where a DataLoader makes the batches; some still concern --val."""
    changed = schema.changed(run)
    if run.data.augment in (augmentations.IMAGENET, "none"):
        changed -= {"augment"}
    for_train = () if run.data.val else ("verify", "skip_bad", "normalize")
    names = ("sampling", "cache", "augment", "overfit", *for_train)
    return [schema.flag_of(name) for name in names if name in changed | schema.requested(run)]
