"""The samples in what a user gives to be judged: files, folders, patterns, .rec files, lists on stdin, Python's values.

Owns the names that answers call them by, and their labels where mistakes are asked for. Which files there are is
`data/input_files.py`'s; what a sample is made of, the task's.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, NamedTuple, NoReturn

import numpy as np

from mxtrain.config.values import addresses
from mxtrain.core import outputs, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import fields, image_fields, input_files
from mxtrain.data.boxes import box_labels
from mxtrain.data.input_files import LISTED, Folder
from mxtrain.data.interfaces import Record, Records
from mxtrain.data.loading.assembly import BatchSlice, SampleAssembly
from mxtrain.data.masks import mask_format
from mxtrain.data.records.record_file import open_records, with_sidecars
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.records.recordio import Label
from mxtrain.data.storage import options
from mxtrain.tasks import registry as tasks
from mxtrain.tasks.task import Task

if TYPE_CHECKING:
    from mxtrain.data.sources.source_records import SourceRecords

Values = Callable[[], Mapping[str, Any]]


class Input(NamedTuple):
    """A sample: `values` reads its arrays, from any thread, and raises DataError where it is none."""

    name: str
    values: Values
    is_part: bool = False  # of what holds several, as a folder
    source: str = ""  # of a record: what it was packed from
    picture: Callable[[], bytes] | None = None  # reads it, encoded


class Inputs:
    """The samples of the `inputs`, in order; None wherever a list on stdin has no more to give by now.

    What cannot be opened is in its place as a sample whose `values` raise DataError. A file among them that is also
    `out`, which the answers go to, ends it with a UsageError.
    """

    def __init__(self, task: Task, inputs: Iterable[object], out: Path | None = None):
        self.folders: list[Folder] = []  # that were gone through
        self._task, self._inputs, self._out = task, inputs, out

    def __iter__(self) -> Iterator[Input | None]:
        for value in self._inputs:
            if isinstance(value, Path) and str(value) == LISTED:
                yield from self._listed()
            else:
                yield from self._of(value)

    def _listed(self) -> Iterator[Input | None]:
        is_empty = True
        for line in input_files.listed(input_files.stdin()):
            is_empty = is_empty and line is None
            if line is None:
                yield None
            elif isinstance(line, bytes):
                yield Input("standard input", functools.partial(inputs_of, self._task, line))
            else:
                yield from (found._replace(is_part=True) for found in self._of(line))
        if is_empty:
            nothing = DataError(
                "standard input: is empty; give paths, a line each, or the bytes of a picture"
            )
            yield Input("standard input", functools.partial(_raise, nothing))

    def _of(self, value: object) -> Iterator[Input]:
        try:
            path = self._task.path_of(value)
            if path is None:
                yield from _plain(self._task, value)
                return
            if addresses.is_address(value):
                yield from self._in_store(str(value))
                return
            for file in input_files.matching(path):
                if file == path:
                    yield from self._in(path, value)
                else:
                    yield from (found._replace(is_part=True) for found in self._in(file, file))
        except DataError as error:
            yield Input(str(value), functools.partial(_raise, error))

    def _in_store(self, address: str) -> Iterator[Input]:
        records = _checked(self._task, open_set(address, options.of_flags(self._task.run.data)))
        yield from _of_records(self._task, _unlabelled(self._task, records))

    def _in(self, path: Path, value: object) -> Iterator[Input]:
        outputs.refuse_input("--out", self._out, path)
        if os.path.isdir(path):
            yield from self._in_folder(path)
        elif path.suffix == ".rec":
            _refuse_output(self._out, [path])
            yield from _of_records(self._task, _unlabelled(self._task, _opened(self._task, path)))
        else:
            archive = _archive(self._task, path)
            yield from _plain(self._task, value) if archive is None else _of_archive(self._task, archive)

    def _in_folder(self, path: Path) -> Iterator[Input]:
        folder, is_empty = Folder(path, self._task.suffixes), True
        for file in folder:
            is_empty = False
            outputs.refuse_input("--out", self._out, file)
            yield from (each._replace(is_part=True) for each in _plain(self._task, file))
        for problem in folder.problems:
            yield Input(str(path), functools.partial(_raise, DataError(problem)), is_part=True)
        if is_empty and not folder.problems:
            yield from self._in_folder_of_archives(path)
        else:
            self.folders.append(folder)

    def _in_folder_of_archives(self, path: Path) -> Iterator[Input]:
        packs, archive = sorted(path.glob("*.rec")), _archive(self._task, path)
        if not packs and archive is None:
            suffixes = f" that ends in {', '.join(self._task.suffixes)}" if self._task.suffixes else ""
            raise DataError(f"{path}: has no file{suffixes} in it")
        for pack in packs:
            yield from self._in(pack, pack)
        if archive is not None:
            yield from _of_archive(self._task, archive)


def labelled(task: Task, source: str, out: Path | None = None) -> Iterator[Input]:
    """Yield the samples, with their labels, of a folder of class folders, or of what `evaluate --val` takes.

    UsageError for a file among them that is also `out`.
    """
    from mxtrain.train.open_data import open_source

    if os.path.isdir(source):
        yield from _of_class_folders(task, Path(source), out)
        return
    records = open_source("--mistakes", source, task.run, task, task.objects)
    _refuse_output(out, records.files or [Path(source)])
    task.check(records)
    yield from _of_records(task, records)


def inputs_of(task: Task, source: object) -> Mapping[str, Any]:
    """Return the arrays of a sample that the net takes; failures in a user's task name its flag."""
    found: Mapping[str, Any] = tasks.named(task, tasks.prediction_of(task).inputs_of)(source)
    return found


def _refuse_output(out: Path | None, files: Iterable[Path]) -> None:
    """Refuse a file to write that is one of these, or lies beside a .rec among them as part of it."""
    for path in files:
        for file in with_sidecars(path) if path.suffix == ".rec" else [path]:
            outputs.refuse_input("--out", out, file)


def _plain(task: Task, source: object) -> Iterator[Input]:
    """Yield the samples that the task says an input holds."""
    samples = tasks.named(task, task.samples_in)(source)
    for name, sample in samples:
        if len(samples) > 1:
            yield Input(name, functools.partial(_inputs_of_part, task, name, sample), is_part=True)
        else:
            path = task.path_of(sample) if task.is_of_pictures else None
            picture = None if path is None else functools.partial(regular_files.read, os.fspath(path))
            yield Input(name, functools.partial(inputs_of, task, sample), picture=picture)


def _inputs_of_part(task: Task, name: str, sample: object) -> Mapping[str, Any]:
    """Return the arrays of one of several samples in an input; a DataError begins with its name."""
    try:
        return inputs_of(task, sample)
    except DataError as error:
        raise error if name in str(error) else DataError(f"{name}: {error}") from None


def _opened(task: Task, path: Path) -> Records:
    """Return the samples of a .rec file; DataError where they are not such as the net takes."""
    return _checked(task, open_records(path))


def _archive(task: Task, path: Path) -> SourceRecords | None:
    """Open a .tar, TFRecord, LMDB or HDF5 of pictures, or a folder of such; None where it is none."""
    if not task.is_of_pictures or path.suffix.lower() in task.suffixes:
        return None
    from mxtrain.data.sources import source_records

    return source_records.open_archive(path)


def _of_archive(task: Task, records: SourceRecords) -> Iterator[Input]:
    for position in range(len(records)):
        name, read = records.name(position), functools.partial(records.content, position)
        yield Input(name, functools.partial(_inputs_of_read, task, name, read), True, "", read)


def _inputs_of_read(task: Task, name: str, read: Callable[[], bytes]) -> Mapping[str, Any]:
    return _inputs_of_part(task, name, read())


def _checked(task: Task, records: Records) -> Records:
    opened: Records = task.samples_of(task.run, records)  # type: ignore[assignment]
    if task.is_of_pictures:  # whose labels may be anything: nobody looks at them
        image_fields.refuse_arrays(opened)
    else:
        task.check(opened)
    return opened


def _of_records(task: Task, records: Records) -> Iterator[Input]:
    reader = tasks.function_of(task, task.reader, False)
    assembly = SampleAssembly(records, reader, task.fields, seed=0)
    names = records.source_names() if hasattr(records, "source_names") else None
    for position, key in enumerate(records.keys.tolist()):
        yield Input(
            f"{records.path}:{key}" if records.files else records.where(position),
            functools.partial(_values_of_record, assembly, position),
            is_part=True,
            source=(names.of(key) or "") if names else "",
            picture=functools.partial(_payload, records, position) if task.is_of_pictures else None,
        )


def _values_of_record(assembly: SampleAssembly, position: int) -> Mapping[str, Any]:
    """Return the arrays that the loader makes of a record for evaluations."""
    memory = np.empty(fields.num_bytes(assembly.fields, 1), np.uint8)
    rows = fields.rows(assembly.fields, 1, memory)
    assembly(BatchSlice(np.array([position], np.int64), 0, 0, True), rows)
    return {
        name: array[0, : rows.lengths[name][0]] if name in rows.lengths else array[0]
        for name, array in rows.arrays.items()
    }


def _payload(records: Records, position: int) -> bytes:
    return bytes(mask_format.picture_of(records.read(position).payload))


def _unlabelled(task: Task, records: Records) -> Records:
    """Return records with a label of nothing, where the task has one a sample: those that are stored may be others."""
    if not tasks.is_built_in(task):
        return records
    known = {field.name: field for field in task.fields}
    if "boxes" in known:
        return _Unlabelled(records, box_labels.label_of(np.zeros((0, 6), np.float32), 1, 1))
    label = known.get("label")
    if label is None or label.multiple:
        return records
    return _Unlabelled(records, np.zeros(label.shape, np.float32) if label.shape else 0.0)


class _Unlabelled:
    """`Records` with this label, whatever theirs are."""

    def __init__(self, records: Records, label: Label):
        self._records, self._label = records, label

    def __len__(self) -> int:
        return len(self._records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def read(self, position: int, verify: bool = True) -> Record:
        """Return the record with its label replaced."""
        return self._records.read(position, verify)._replace(label=self._label)


def _of_class_folders(task: Task, root: Path, out: Path | None) -> Iterator[Input]:
    """Yield the files under each folder that is called as a class of the net, with that class as their label."""
    names = list(task.description.get("class_names", ()))
    if not names or task.metric_kind != "classes":
        raise UsageError(f"--mistakes: {root} is a folder, and this net learns no classes; give a .rec")
    try:
        folders = sorted(each for each in root.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise DataError(f"{root}: cannot be read ({error.strerror})") from None
    odd = next((folder for folder in folders if folder.name not in names), None)
    if odd is not None or not folders:
        known = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        problem = f"{root}: has no folders in it" if odd is None else f"{odd}: is no class of the net"
        raise DataError(f"{problem}; give a folder with a folder for each class ({known})")
    for folder in folders:
        label = np.float32(names.index(folder.name))
        files = Folder(folder, task.suffixes)
        for path in files:
            outputs.refuse_input("--out", out, path)
            read = functools.partial(regular_files.read, path)
            yield Input(str(path), functools.partial(_with_label, task, path, label), True, "", read)
        for problem in files.problems:
            yield Input(str(folder), functools.partial(_raise, DataError(problem)), is_part=True)


def _with_label(task: Task, path: Path, label: Any) -> Mapping[str, Any]:
    return {**inputs_of(task, path), "label": label}


def _raise(error: DataError) -> NoReturn:
    raise error
