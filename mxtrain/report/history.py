"""The history of a run, read from its folder: what metrics.jsonl, config.yaml and environment.json hold.

Owns how records become columns, and which of the large ones are kept of a long run. Works while the run writes, after
it died in the middle of a line, and with the runs of earlier versions. What the numbers mean is the readers' business.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple

import numpy as np

from mxtrain.core import formats
from mxtrain.core.errors import UsageError

Record = Dict[str, Any]
Column = Any  # a NumPy array of float64

BLOCK_BYTES = (
    1 << 22
)  # is parsed at once, five times as fast as line by line; no more of the file is in memory
LONG_BYTES, MOST_PROCESSES = 1 << 25, 8  # a longer file is read by several processes
PR_SET_PDEATHSIG = 1
TAIL_BYTES = 256  # before the place where reading goes on: another content there is another file
# Of kinds with long records at most twice as many stay in memory, evenly over the run, and the newest always.
MOST_KEPT = {"layers": 1000, "workers": 1000, "system": 2000, "classes": 25, "worst": 25}


class History:
    """All that a run has recorded so far; `read_on` adds what it has written since."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "metrics.jsonl"
        self._clear()

    def _clear(self) -> None:
        self.config: dict[str, Any] = {}
        self.environment: dict[str, Any] = {}
        self.num_damaged = 0  # lines that are no record
        self.num_steps = 0  # records of kind train
        self._parts: dict[str, list[Column]] = {}  # of each column, from first to last
        self._by_kind: dict[str, _Kept] = {}
        self._offset, self._tail = 0, b""

    @property
    def train(self) -> dict[str, Column]:
        """The records of kind train as columns, by name: NaN where a record has no such number."""
        return {name: self.column(name) for name in self._parts}

    def column(self, name: str) -> Column:
        """Return one number of all `train` records; NaN where a record, or the whole run, has none."""
        parts = self._parts.get(name, [])
        missing = self.num_steps - sum(map(len, parts))
        if missing or len(parts) != 1:
            parts = [np.concatenate([*parts, np.full(missing, np.nan)])]
            if name in self._parts:
                self._parts[name] = parts
        return parts[0]

    def of_kind(self, record_kind: str) -> list[Record]:
        """Return the records of another kind than train, in their order; evenly chosen ones where they are too many."""
        return list(self._by_kind[record_kind].records) if record_kind in self._by_kind else []

    def read_on(self, processes: int = 1) -> bool:
        """Read what was written since the last time; return whether there was anything, or the file is another."""
        if not self.config or not self.environment:
            self.config, self.environment = _config(self.folder), _environment(self.folder)
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be read ({error.strerror})") from None
        with file:
            was_replaced = self._was_replaced(file)
            if was_replaced:  # as by a resume: all that was read is void
                self._clear()
                self.config, self.environment = _config(self.folder), _environment(self.folder)
            start = self._offset
            for read in (
                map(_read, self._blocks(file)) if processes == 1 else self._read_beside(file, processes)
            ):
                self._add(read)
            return was_replaced or self._offset > start

    def _read_beside(self, file: Any, processes: int) -> Iterator[_Read]:
        """Yield the same as by one process, some blocks at a time, so that memory holds only these."""
        blocks = self._blocks(file)
        with multiprocessing.get_context("fork").Pool(processes, _die_with, (os.getpid(),)) as pool:
            while some := list(itertools.islice(blocks, 4 * processes)):
                yield from pool.map(_read, some, chunksize=1)

    def _was_replaced(self, file: Any) -> bool:
        file.seek(self._offset - len(self._tail))
        return bool(file.read(len(self._tail)) != self._tail)

    def _blocks(self, file: Any) -> Iterator[bytes]:
        """Yield the whole lines of the file that are not read yet; the last one may not be finished."""
        file.seek(self._offset)
        while True:
            block = file.read(BLOCK_BYTES)
            if not block.endswith(b"\n"):
                block += file.readline()  # the rest of its last line
            if not block.endswith(b"\n"):
                block = block[: block.rfind(b"\n") + 1]
            if not block:
                return
            self._offset += len(block)
            self._tail = (self._tail + block)[-TAIL_BYTES:]
            yield block

    def _add(self, read: _Read) -> None:
        for name, column in read.columns.items():
            parts = self._parts.setdefault(name, [])
            missing = self.num_steps - sum(map(len, parts))
            if missing:
                parts.append(np.full(missing, np.nan))
            parts.append(column)
        self.num_steps += read.num_steps
        self.num_damaged += read.num_damaged
        for record in read.others:
            record_kind = record["kind"]
            self._by_kind.setdefault(record_kind, _Kept(MOST_KEPT.get(record_kind, 0))).add(record)


class _Read(NamedTuple):
    """The records of a block of lines."""

    num_steps: int
    columns: dict[str, Column]  # of the `train` records
    others: list[Record]
    num_damaged: int


class _Kept:
    """Records of a kind: all, or with `most` every n-th, from `most` to twice as many, and the newest."""

    def __init__(self, most: int):
        self.records: list[Record] = []
        self._most, self._every, self._added = most, 1, 0

    def add(self, record: Record) -> None:
        if self.records and (self._added - 1) % self._every:
            self.records.pop()  # it was there only as the newest
        self.records.append(record)
        self._added += 1
        if self._most and len(self.records) > 2 * self._most:
            self.records, self._every = self.records[::2], 2 * self._every


def read(folder: str | Path) -> History:
    """Return what the run in this folder has recorded so far; UsageError where there is no run."""
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"{path}: is no folder; give the --out of a run")
    if not any((path / name).exists() for name in ("metrics.jsonl", "config.yaml")):
        raise UsageError(
            f"{path}: holds no run, neither metrics.jsonl nor config.yaml; give the --out of a run"
        )
    history = History(path)
    is_long = history.path.exists() and history.path.stat().st_size > LONG_BYTES
    history.read_on(min(os.cpu_count() or 1, MOST_PROCESSES) if is_long else 1)
    return history


def _die_with(parent: int) -> None:
    """Leave signals to the parent, and end with it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked to watch it
        os._exit(1)


def _read(block: bytes) -> _Read:
    """Return what these lines hold."""
    records, num_damaged = _parsed(block.split(b"\n")[:-1])
    steps = [record for record in records if record["kind"] == "train"]
    names = dict.fromkeys(name for record in steps for name in record)
    columns = {name: _numbers([record.get(name) for record in steps]) for name in names if name != "kind"}
    others = [record for record in records if record["kind"] != "train"]
    return _Read(len(steps), columns, others, num_damaged)


def _parsed(lines: list[bytes]) -> tuple[list[Record], int]:
    """Return the records on these lines, and how many lines are none."""
    try:
        found = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):  # a damaged line: each by itself, then
        found = []
    if len(found) != len(lines):
        found = [_record_on(line) for line in lines]
    records = [each for each in found if isinstance(each, dict) and _is_record(each)]
    return records, len(lines) - len(records)


def _record_on(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None


def _is_record(value: Record) -> bool:
    return isinstance(value.get("step"), (int, float)) and isinstance(value.get("kind"), str)


def _numbers(values: list[Any]) -> Column:
    """Return the values as float64; NaN for what is no number."""
    try:
        found = np.array(values, np.float64)  # None becomes NaN
    except (ValueError, TypeError, OverflowError):
        found = None
    if found is None or found.ndim != 1:  # lists among them, all of one length
        found = np.array([float(value) if _is_number(value) else np.nan for value in values], np.float64)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e308  # a longer int is no float


def _config(folder: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8", errors="replace"))
    except (OSError, yaml.YAMLError):
        found = None
    return found if isinstance(found, dict) else {}


def _environment(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "environment.json").read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        return {}
    number = found.get(formats.KEY, 1)
    if isinstance(number, int) and number > formats.RUN:
        raise formats.newer(folder / "environment.json", number, formats.RUN)
    return found
